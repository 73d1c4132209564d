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
	"strconv"
	"time"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// readersAtOnce is how many connections ask, each for one thing after the other.
const readersAtOnce = 16

// api measures how often the list of consents, the tasks of a consent of a month and that
// consent are read, over connections to this machine, next to the least that a server can
// do: the same bytes, out of memory. The API keeps its answer about a consent as long as
// nothing is recorded; it makes the lists anew each time. What asks runs beside what answers, and no limit of reading holds.
func (b *bench) api(ctx context.Context) (err error) {
	records, err := write(consentsRead, daysRead)
	if err != nil {
		return err
	}
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.drop()) }()
	v, err := serveLedger(ctx, s, listed(records))
	if err != nil {
		return err
	}
	defer v.Close()
	for _, m := range []struct{ what, path string }{
		{"GET consents", "/v1/mystery/consents"},
		{"GET shops of a consent", v.path() + "/shops"},
		{"GET consent, kept", v.path()},
	} {
		if err := b.readings(ctx, m.what, v.address, m.path); err != nil {
			return err
		}
	}
	return nil
}

// A service is the API on a ledger.
type service struct {
	*endpoint

	consent string // one of the ledger
}

// path returns where the consent is read.
func (v *service) path() string { return "/v1/mystery/consents/" + v.consent }

// serveLedger serves what a log says.
func serveLedger(ctx context.Context, s *schema, log ledger.Log) (*service, error) {
	runner := &projections.Runner{Log: log, Catalog: commands.Catalog(), Pool: s.pool, Projections: projections.All()}
	if err := firstOf(runner.Init(ctx), runner.CatchUp(ctx)); err != nil {
		return nil, err
	}
	reader := projections.Reader{Pool: s.pool}
	list, err := reader.Consents(ctx, projections.ConsentQuery{Limit: 1})
	if err != nil {
		return nil, err
	}
	e, err := serve(ctx, api.New(api.Config{
		Reader: reader, Ledger: publiclog.Reader{Pool: s.pool}, PublicURL: "https://karatum.com", Now: time.Now, CatchUp: runner.CatchUp,
	}))
	return &service{e, list[0].ID}, err
}

// readings measures how often a path is read.
func (b *bench) readings(ctx context.Context, what, address, path string) error {
	body, err := ask(ctx, address, path)
	if err != nil {
		return err
	}
	bare, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}))
	if err != nil {
		return err
	}
	defer bare.Close()
	asking := func(address string) func(context.Context) ([]figure, error) {
		return func(ctx context.Context) ([]figure, error) { return b.hammer(ctx, address, path) }
	}
	return b.hold(ctx, doing(what, side{run: asking(address)}, side{"the same bytes from net/http", asking(bare.address)}))
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
func (b *bench) hammer(ctx context.Context, address, path string) (figures []figure, err error) {
	connections := make([]*connection, readersAtOnce)
	for i := range connections {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		connections[i] = &connection{conn, bufio.NewReaderSize(conn, 64<<10)}
	}
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: karatum.com\r\n\r\n")
	figures, _, err = b.closedLoop(readersAtOnce, func(reader int, _ uint64) error { return connections[reader].ask(request) })
	return figures, err
}

type connection struct {
	net.Conn

	in *bufio.Reader
}

// ask reads of the answer what it takes to find its end, so that asking costs little
// beside answering.
func (c *connection) ask(request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	return skipAnswer(c.in)
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
