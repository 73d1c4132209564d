package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/karatum/mystery/api/client/producers"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
	"github.com/karatum/mystery/domain/shield"
)

var soakFor = flag.Duration("soak", 0, "for how long the service is run under load")

// What a process may hold more at the end than when it was warm. What it keeps of what it
// has read is bounded, and may not be full when it is warm.
const (
	moreGoroutines  = 40
	moreDescriptors = 40
	moreHeap        = 96 << 20
)

// TestSoak runs the service under a steady load of readers, producers and shopping, an hour
// of which passes in a blink, and looks whether it holds on to anything: goroutines, open
// descriptors, memory.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("it takes -soak, a duration")
	}
	s, consents := openWith(t, flags{seed: "95", listen: "127.0.0.1:0"})
	ctx, end := context.WithCancel(t.Context())
	var load sync.WaitGroup
	l := &loadOf{stage: s}
	l.paths = []string{
		"/v1/mystery", "/v1/mystery/consents", "/v1/mystery/findings", "/v1/mystery/agents/build:steady", "/v1/ledger", "/v1/ledger/records?limit=200",
		"/mystery", "/ledger/checkpoint", "/v1/ledger/shield/cases", "/readyz", "/no/such/page",
	}
	for _, p := range consents {
		id := plan.ConsentID(p.Nonce)
		l.paths = append(l.paths, "/v1/mystery/consents/"+id, "/v1/mystery/consents/"+id+"/shops?limit=240", "/v1/mystery/shops/"+plan.ShopID(id, p.FirstDay, 3),
			"/v1/ledger/bundle?shop="+plan.ShopID(id, p.FirstDay, 5))
	}
	load.Go(func() { _ = s.prog.Follow(ctx) })
	load.Go(func() { l.shop(ctx, t) })
	for i := range 3 {
		load.Go(func() { l.read(ctx, t, i) })
	}
	l.register(t)
	load.Go(func() { l.produce(ctx, t) })

	const samples = 12
	began := time.Now()
	var table []sample
	for i := range samples {
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(time.Until(began.Add(*soakFor * time.Duration(i+1) / samples))):
		}
		table = append(table, l.sample(t, time.Since(began)))
	}
	end()
	load.Wait()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "after\tdays\tsteps\tread\tproduced\tgoroutines\tdescriptors\theap MB\t")
	for _, x := range table {
		_, _ = fmt.Fprintf(w, "%s\t%.1f\t%d\t%d\t%d\t%d\t%d\t%.1f\t\n", x.after.Round(time.Second), x.days, x.steps, x.reads, x.produced, x.goroutines, x.descriptors, float64(x.heap)/(1<<20))
	}
	_ = w.Flush()
	t.Logf("\n%s", &text)

	warm, last := table[samples/4], table[samples-1]
	if last.goroutines > warm.goroutines+moreGoroutines || last.descriptors > warm.descriptors+moreDescriptors || last.heap > warm.heap+moreHeap {
		t.Errorf("from %s on it has come from %d goroutines, %d descriptors and %d bytes of heap to %d, %d and %d",
			warm.after, warm.goroutines, warm.descriptors, warm.heap, last.goroutines, last.descriptors, last.heap)
	}
	if last.steps == warm.steps || last.reads == warm.reads || last.produced == warm.produced {
		t.Error("the load was not steady: something has stopped")
	}
	s.history(t).check(t)
}

// A loadOf a stage is what is asked of it.
type loadOf struct {
	*stage

	paths  []string
	client *producers.Client

	steps, reads, produced atomic.Int64
}

// A sample is what the process holds at a moment.
type sample struct {
	after                   time.Duration
	days                    float64
	steps, reads, produced  int64
	goroutines, descriptors int
	heap                    uint64
}

func (l *loadOf) sample(t *testing.T, after time.Duration) sample {
	t.Helper()
	runtime.GC()
	runtime.GC() // and what finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Logf("descriptors are not counted here: %v", err)
	}
	return sample{
		after, l.clock.Now().Sub(l.start).Hours() / 24, l.steps.Load(), l.reads.Load(), l.produced.Load(),
		runtime.NumGoroutine(), len(open), m.HeapAlloc,
	}
}

// soakSteps bounds how many hours pass, or keys that hold for two years would run out.
const soakSteps = 10_000

// goOn publishes what there is, and has consents given again when they are over.
func (l *loadOf) goOn(ctx context.Context) error {
	if err := l.prog.PublishLedger(ctx); err != nil {
		return err
	}
	left, err := l.prog.Worker.Work.Consents(ctx)
	if err == nil && len(left) == 0 {
		_, err = l.enrol(ctx)
	}
	return err
}

// shop lets virtual time pass, an hour in some hundred milliseconds at most.
func (l *loadOf) shop(ctx context.Context, t *testing.T) {
	t.Helper()
	for ctx.Err() == nil {
		next, err := l.prog.Worker.Step(ctx)
		if err != nil && ctx.Err() == nil {
			t.Errorf("a step fails: %v", err)
			return
		}
		if l.steps.Add(1)%24 == 0 {
			if err := l.goOn(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
		l.clock.Jump(next)
		pause(ctx, max(50*time.Millisecond, *soakFor/soakSteps))
	}
}

// read asks for one page after the other.
func (l *loadOf) read(ctx context.Context, t *testing.T, i int) {
	t.Helper()
	for ; ctx.Err() == nil; i++ {
		path := l.paths[i%len(l.paths)]
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.api.base+path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("GET %s: %v", path, err)
			}
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode >= http.StatusInternalServerError {
			t.Errorf("GET %s: %s", path, res.Status)
		}
		l.reads.Add(1)
		pause(ctx, 20*time.Millisecond)
	}
}

// register makes the producer known.
func (l *loadOf) register(t *testing.T) {
	t.Helper()
	runner := producertest.New("shield-runner")
	m := ledger.Meta{Actor: "operator", Command: "register the runner"}
	if err := l.prog.Service.Producer(t.Context(), m, runner.Name, producer.Register(runner.Registered("shield-case"))); err != nil {
		t.Fatal(err)
	}
	public, err := url.Parse(publicURL)
	if err != nil {
		t.Fatal(err)
	}
	l.client = &producers.Client{URL: l.api.base, Authority: public.Host, Signer: runner.Signer(), Now: l.clock.Now}
}

// produce sends one case after the other.
func (l *loadOf) produce(ctx context.Context, t *testing.T) {
	t.Helper()
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("sc_%d", i)
		signed, err := l.client.Sign(shield.StreamOf(id), caseOf(id), id+"/opened", l.clock.Now())
		if err != nil {
			t.Error(err)
			return
		}
		_, err = l.client.Send(ctx, signed)
		refusal := new(producers.Refusal)
		switch {
		case ctx.Err() != nil:
		case errors.As(err, &refusal) && (refusal.Type == "clock-skew" || refusal.Type == "signature-expired"):
			// The clock has jumped between the signing and the look at it. The next one is signed anew.
		case err != nil:
			t.Errorf("an event is not taken: %v", err)
			return
		default:
			l.produced.Add(1)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// caseOf returns a case of its own.
func caseOf(id string) shield.CaseOpened {
	return shield.CaseOpened{
		Case: id, Agent: "build:steady",
		Target: shield.Target{Kind: shield.Fork, ChainID: 84532, Block: 17, Fork: "fork_1", Host: "copy-1.shield.internal:8443"},
		Suite:  shield.Tool{Name: "suite", Version: "1"}, Attack: shield.Attack{Class: "LLM01", Technique: "injection"}, UserTask: "7",
		Budget: shield.Budget{USD: "0.25"},
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
