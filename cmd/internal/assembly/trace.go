package assembly

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
)

// Traces are off unless the Config names a collector. They tell when tasks are sent, so the
// collector must be as private as the database. What comes from outside, such as a
// traceparent header, is not listened to, and nothing is sent along to agents or nodes:
// either would tell the two apart from others.

// flushTimeout bounds what is waited for at the end for spans that were not sent yet.
const flushTimeout = 5 * time.Second

// openTraces begins to send spans, if there is to be any.
func (p *Programme) openTraces(ctx context.Context, o Options) error {
	if p.config.TracesTo == "" {
		return nil
	}
	base, err := url.Parse(p.config.TracesTo)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT %q is not an absolute http(s) URL, such as http://localhost:4318: %w", p.config.TracesTo, domain.ErrInvalid)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base.JoinPath("v1", "traces").String()))
	if err != nil {
		return fmt.Errorf("send traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "karatum-mystery"), attribute.String("service.version", orElse(o.Version, "devel"))),
		resource.WithFromEnv()) // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
	if err != nil {
		return fmt.Errorf("describe this process in traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { p.log.Warn("traces are lost", "err", err) })) // it would write lines of its own
	p.tracer = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	late := context.WithoutCancel(ctx) // that of Open has ended when it is closed
	p.closers = append(p.closers, func() {
		ctx, cancel := context.WithTimeout(late, flushTimeout)
		defer cancel()
		if err := p.tracer.Shutdown(ctx); err != nil {
			p.log.WarnContext(ctx, "the last traces could not be sent", "err", err)
		}
	})
	return nil
}

// root is a span that is none: it stands for the provider of those below it, which so
// begin traces of their own.
type root struct {
	trace.Span

	provider trace.TracerProvider
}

func (r root) TracerProvider() trace.TracerProvider { return r.provider }

// traced returns a context below which [commands.StartSpan] begins spans, if there are to
// be any.
func (p *Programme) traced(ctx context.Context) context.Context {
	if p.tracer == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, root{trace.SpanFromContext(context.Background()), p.tracer})
}

// traceRequest begins the span of a request. Its route is known at the end.
func (p *Programme) traceRequest(ctx context.Context, method string) (context.Context, func(route string, status int)) {
	ctx, end := commands.StartSpan(p.traced(ctx), method)
	span := trace.SpanFromContext(ctx)
	return ctx, func(route string, status int) {
		span.SetName(method + " " + route)
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route), attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		end(nil)
	}
}
