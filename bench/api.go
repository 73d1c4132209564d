package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// readersAtOnce is how many connections ask, each for one thing after the other.
const readersAtOnce = 16

// A serving is how often a server answers, over network connections to this machine from
// this very process, whose processor time is therefore in it.
type serving struct {
	What   string        `json:"what"`
	Rate   float64       `json:"requestsPerSecond"`
	Median time.Duration `json:"p50"`
	P99    time.Duration `json:"p99"`
	Bytes  int           `json:"bytes"` // of a body
}

// api measures how often one consent of a month is read, next to the least that a server
// can do: the same bytes, out of memory. The rounds of both take turns, and the best of
// each counts.
func (b *bench) api(ctx context.Context, rounds int) ([]serving, error) {
	pool, err := migrations.Connect(ctx, b.url, "served")
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	records, err := write(consentsRead, 30)
	if err != nil {
		return nil, err
	}
	runner := &projections.Runner{Log: listed(records), Catalog: commands.Catalog(), Pool: pool, Projections: projections.All()}
	if err := errors.Join(runner.Init(ctx), runner.CatchUp(ctx)); err != nil {
		return nil, err
	}
	reader := projections.Reader{Pool: pool}
	list, err := reader.Consents(ctx, projections.ConsentQuery{Limit: 1})
	if err != nil {
		return nil, err
	}
	path := "/v1/mystery/consents/" + list[0].ID
	served, err := serve(ctx, api.New(api.Config{
		Reader: reader, Ledger: publiclog.Reader{Pool: pool}, PublicURL: "https://karatum.com", Now: time.Now, CatchUp: runner.CatchUp,
	}))
	if err != nil {
		return nil, err
	}
	defer served.Close()
	body, err := ask(ctx, served.address, path)
	if err != nil {
		return nil, err
	}
	bare, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}))
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	best := []serving{{What: "GET /v1/mystery/consents/{id}"}, {What: "the same bytes from net/http"}}
	for range rounds {
		for i, s := range []*endpoint{served, bare} {
			got, err := b.hammer(ctx, s.address, path)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", best[i].What, err)
			}
			if got.Rate > best[i].Rate {
				got.What, got.Bytes = best[i].What, len(body)
				best[i] = got
			}
		}
	}
	return best, nil
}

// listed is a log that is read and not written.
type listed []ledger.Record

func (listed) Append(context.Context, ledger.Stream, uint64, ledger.Meta, ...domain.Event) error {
	return errors.New("nothing is appended here")
}

func (l listed) Stream(_ context.Context, s ledger.Stream, version uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for _, r := range l {
			if r.Stream == s && r.Version > version && !yield(r, nil) {
				return
			}
		}
	}
}

func (l listed) After(_ context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for _, r := range l {
			if r.Position > position && !yield(r, nil) {
				return
			}
		}
	}
}

// An endpoint is a handler behind a socket.
type endpoint struct {
	*http.Server

	address string
}

func serve(ctx context.Context, h http.Handler) (*endpoint, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &endpoint{&http.Server{Handler: h, ReadHeaderTimeout: time.Minute}, l.Addr().String()}
	go func() { _ = s.Serve(l) }() // until it is closed
	return s, nil
}

// ask returns the body of one answer.
func ask(ctx context.Context, address, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s answers %s", path, res.Status)
	}
	return io.ReadAll(res.Body)
}

// hammer asks for a path from all connections for the length of a measurement.
func (b *bench) hammer(ctx context.Context, address, path string) (s serving, err error) {
	took := make([][]time.Duration, readersAtOnce)
	errs := make([]error, readersAtOnce)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range readersAtOnce {
		wg.Go(func() { took[i], errs[i] = askAgain(ctx, address, path, began.Add(b.length)) })
	}
	wg.Wait()
	elapsed := time.Since(began)
	all := slices.Concat(took...)
	slices.Sort(all)
	if err := errors.Join(errs...); err != nil || len(all) == 0 {
		return s, errors.Join(err, ctx.Err())
	}
	return serving{Rate: float64(len(all)) / elapsed.Seconds(), Median: all[len(all)/2], P99: all[len(all)*99/100]}, nil
}

// askAgain asks on one connection until the time is over. It reads of an answer what it
// takes to find its end, so that asking costs little beside answering.
func askAgain(ctx context.Context, address, path string, until time.Time) (took []time.Duration, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: karatum.com\r\n\r\n")
	in := bufio.NewReaderSize(conn, 64<<10)
	for now := time.Now(); now.Before(until); {
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		if err := skipAnswer(in); err != nil {
			return nil, err
		}
		end := time.Now()
		took = append(took, end.Sub(now))
		now = end
	}
	return took, nil
}

// skipAnswer reads an answer of success with a Content-Length.
func skipAnswer(in *bufio.Reader) error {
	length := -1
	for n := 0; ; n++ {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if n == 0 && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
			return fmt.Errorf("the answer is %q", line)
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
		if len(bytes.TrimSpace(line)) == 0 {
			break
		}
	}
	if length < 0 {
		return errors.New("the answer does not say its length")
	}
	_, err := in.Discard(length)
	return err
}

func printServings(w io.Writer, list []serving) error {
	if len(list) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "what\trequests/s\tp50\tp99\tbytes\t")
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%d\t\n", s.What, s.Rate, s.Median.Round(time.Microsecond), s.P99.Round(time.Microsecond), s.Bytes)
	}
	return t.Flush()
}
