package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/privatepg"
	"github.com/karatum/mystery/projections"
)

// Consents of the ledger last this many days; there are as many as it takes.
const footprintDays = 90

// Readers ask for this long, or so often.
const (
	footprintReads = 2 * time.Minute
	footprintAsks  = 20000
)

// footprint measures how long the service takes to start on a ledger of a million records,
// of which every consent is over, and how much memory: the two processes that a host runs,
// serve and work, as they are built, on a PostgreSQL of their own, which is not counted.
func (b *bench) footprint(ctx context.Context) (err error) {
	state := filepath.Join(b.scratch, "footprint")
	if err := os.Mkdir(state, 0o755); err != nil { //nolint:gosec // the server's account must be able to enter
		return err
	}
	server, err := privatepg.Start(ctx, privatepg.Options{Dir: filepath.Join(state, "postgres"), Settings: []string{"max_connections=300"}})
	if err != nil {
		return err
	}
	defer server.Stop()
	s := &deployment{state: state, url: server.URL(), binary: filepath.Join(state, "karatum-mystery")}
	build := exec.CommandContext(ctx, "go", "build", "-o", s.binary, "./cmd/karatum-mystery")
	build.Dir, build.Stderr = "..", b.stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build karatum-mystery, from the directory of the measurements: %w", err)
	}
	n, err := settle(ctx, s.url, b.records)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	among := fmt.Sprintf("%d events: ", n)
	took, err := s.serve(ctx, s.url)
	if err != nil {
		return err
	}
	b.note(among+"first start, read models are made", "s", took.Seconds())
	if err := s.signed(ctx, n); err != nil { // then there is nothing left to be made
		return err
	}
	if err := b.starts(ctx, s, among+"start to ready", s.url); err != nil {
		return err
	}
	if err := b.memory(ctx, s, among); err != nil {
		return err
	}
	server.Stop()
	return b.starts(ctx, s, among+"start to ready, with its PostgreSQL", "")
}

// starts measures how long serve takes until it is ready, again and again.
func (b *bench) starts(ctx context.Context, s *deployment, what, url string) error {
	var all []float64
	for range b.rounds {
		if err := s.stop(); err != nil {
			return err
		}
		took, err := s.serve(ctx, url)
		if err != nil {
			return err
		}
		all = append(all, took.Seconds())
	}
	b.note(what, "s", all...)
	return s.stop()
}

// memory measures the memory of both processes after people have read for a while.
func (b *bench) memory(ctx context.Context, s *deployment, among string) error {
	if _, err := s.serve(ctx, s.url); err != nil {
		return err
	}
	if _, err := s.start(ctx, "work", s.url); err != nil {
		return err
	}
	if err := s.read(ctx); err != nil {
		return err
	}
	sum := 0.0
	for _, p := range s.running {
		now, peak, err := p.resident()
		if err != nil {
			return err
		}
		b.note(among+"memory of "+p.name, "MB", now)
		b.note(among+"memory of "+p.name+", at most", "MB", peak)
		sum += now
	}
	b.note(among+"memory of both", "MB", sum)
	return s.stop()
}

// note adds a line of what has no peer.
func (b *bench) note(what, unit string, values ...float64) {
	b.lines = append(b.lines, line{What: what, Unit: unit, Ours: spreadOf(values), stage: b.stage})
}

// settle writes a ledger and returns how many records it has.
func settle(ctx context.Context, url string, records int) (int, error) {
	pool, err := migrations.Connect(ctx, url, "mystery")
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	log := postgres.New(pool, postgres.Options{})
	defer log.Close()
	n, err := log.Import(ctx, over(records))
	if err != nil {
		return 0, err
	}
	_, err = pool.Exec(ctx, "analyze")
	return int(n), err //nolint:gosec // a million or so
}

// over yields a ledger of at least so many records without the operator's key, which the
// service makes. It holds a day of one consent in memory.
func over(records int) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		h := newHistory()
		flush := func(err error) bool {
			if err != nil {
				yield(ledger.Record{}, err)
				return false
			}
			for _, r := range h.records {
				if !yield(r, nil) {
					return false
				}
			}
			h.forget()
			return true
		}
		for i := 0; h.count < uint64(records); i++ { //nolint:gosec // not negative
			ref := agent.Ref(fmt.Sprintf("build:%d", i))
			id, err := h.grant(ref, i)
			if !flush(err) {
				return
			}
			for day := range uint32(footprintDays) {
				if !flush(h.day(id, ref, firstDay+day)) {
					return
				}
			}
		}
	}
}

// A deployment is the processes that run on one database.
type deployment struct {
	state, url string
	binary     string
	address    string // of serve
	running    []*process
}

// A process is one that was started.
type process struct {
	name   string
	cmd    *exec.Cmd
	ended  chan struct{}
	output bytes.Buffer // to be read once it has ended
	err    error        // the same
}

// start starts a command of the program, on a database or for "" on a private one.
func (s *deployment) start(ctx context.Context, command, url string, args ...string) (*process, error) {
	p := &process{name: command, cmd: exec.CommandContext(ctx, s.binary, append([]string{command}, args...)...), ended: make(chan struct{})}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.Env = append(os.Environ(), "MYSTERY_STATE_DIR="+s.state, "MYSTERY_CHECKPOINT_INTERVAL=1s", "MYSTERY_TRUSTED_PROXIES=127.0.0.0/8")
	if url != "" {
		p.cmd.Env = append(p.cmd.Env, "MYSTERY_DATABASE_URL="+url)
	}
	p.cmd.Stderr = &p.output
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	s.running = append(s.running, p)
	return p, nil
}

// stop ends all processes.
func (s *deployment) stop() error {
	var errs []error
	for _, p := range s.running {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	for _, p := range s.running {
		<-p.ended
		if p.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", p.name, p.err, p.output.Bytes()))
		}
	}
	s.running = nil
	return errors.Join(errs...)
}

// serve starts to serve, on a database or for "" on one that the process starts, and returns
// how long it took until that was ready.
func (s *deployment) serve(ctx context.Context, url string) (time.Duration, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	s.address = l.Addr().String()
	if err := l.Close(); err != nil {
		return 0, err
	}
	began := time.Now()
	p, err := s.start(ctx, "serve", url, "--no-work", "--listen", s.address)
	if err != nil {
		return 0, err
	}
	for {
		if status, _, err := s.ask(ctx, "/readyz", ""); err == nil && status == http.StatusOK {
			return time.Since(began), nil
		}
		select {
		case <-p.ended:
			return 0, fmt.Errorf("serve has ended: %w: %s", p.err, p.output.Bytes())
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ask asks for a path on behalf of somebody behind a proxy.
func (s *deployment) ask(ctx context.Context, path, client string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if client != "" {
		req.Header.Set("X-Forwarded-For", client)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}

// signed waits until a checkpoint covers the public ones of so many records, more than half.
func (s *deployment) signed(ctx context.Context, records int) error {
	for {
		status, note, err := s.ask(ctx, "/ledger/checkpoint", "")
		if lines := strings.SplitN(string(note), "\n", 3); err == nil && status == http.StatusOK && len(lines) == 3 {
			if size, err := strconv.Atoi(lines[1]); err == nil && size > records/2 { // the tree is signed once it has caught up
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// read asks for what people and programs ask for, of all consents.
func (s *deployment) read(ctx context.Context) error {
	var consents []string
	pool, err := migrations.Connect(ctx, s.url, "mystery")
	if err != nil {
		return err
	}
	defer pool.Close()
	list, err := projections.Reader{Pool: pool}.Consents(ctx, projections.ConsentQuery{Limit: math.MaxInt32})
	if err != nil {
		return err
	}
	for _, c := range list {
		consents = append(consents, c.ID)
	}
	until := time.Now().Add(footprintReads)
	var asked atomic.Int64
	errs := make([]error, readersAtOnce)
	var wg sync.WaitGroup
	for w := range readersAtOnce {
		wg.Go(func() {
			for time.Now().Before(until) {
				n := int(asked.Add(1))
				if n > footprintAsks {
					return
				}
				id := consents[n/7%len(consents)]
				path := [...]string{
					"/v1/mystery", "/v1/mystery/consents?limit=50", "/v1/mystery/consents/" + id, "/v1/mystery/consents/" + id + "/shops?limit=100",
					"/mystery/" + id, "/v1/ledger/records?limit=100&from=" + strconv.Itoa(n), "/mystery",
				}[n%7]
				status, body, err := s.ask(ctx, path, fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255))
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("GET %s: %d: %.200s", path, status, body)
				}
				if err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// resident returns the memory of a process that runs, now and at most, in megabytes.
func (p *process) resident() (now, peak float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64) // 0 for what is no number
		switch name {
		case "VmRSS":
			now = kb / 1024
		case "VmHWM":
			peak = kb / 1024
		}
	}
	if now == 0 {
		return 0, 0, fmt.Errorf("/proc does not tell the memory of %s", p.name)
	}
	return now, peak, nil
}
