package commands

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// StartSpan begins a span below the one that ctx carries, by the provider that that one
// is of. If ctx carries none, as when nobody asked for traces, nothing is recorded and it
// costs next to nothing. The returned function ends it, with what came of it: the text of
// an error is not told, for it may quote what an agent was asked or has answered.
//
// Attributes name streams, types and numbers. They never hold a text of a task, a seed or
// an answer.
func StartSpan(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, func(error)) {
	ctx, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/karatum/mystery").
		Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
