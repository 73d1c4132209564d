package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// public counts the public records of the log.
func (w *world) public() (n int) {
	for r, err := range w.log.After(w.t.Context(), 0) {
		w.ok(err)
		if commands.Catalog().Visibility(r.Type) == domain.Public {
			n++
		}
	}
	return n
}

// register puts a public record on the log, which no read model has yet.
func (w *world) register(ref agent.Ref) {
	w.t.Helper()
	w.ok(w.service.Agent(w.t.Context(), w.meta("register"), ref, agent.Register{Agent: ref, Wallet: owner}))
}

func TestAnswersSayTheirSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	d := w.seal(w.grant(house), house)
	d.send(d.tasks[0], "5280 feet")
	w.ok(w.runner.CatchUp(t.Context()))
	want := strconv.Itoa(w.public())
	paths := append(everything(d), "/v1/ledger/batches", "/v1/ledger/sessions", "/v1/ledger/shield/cases", "/v1/ledger/batches/1",
		root+"/stats", root+"/consents?format=csv", root+"/consents?limit=0")
	for _, path := range paths {
		if !strings.HasPrefix(path, "/v1/") || strings.Contains(path, "openapi") {
			continue
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if got := w.do(method, path, "").header.Get("Ledger-Size"); got != want {
				t.Errorf("%s %s: Ledger-Size = %q, want %s", method, path, got, want)
			}
		}
	}
}

func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	late := errors.New("not now")
	w.handler = api.New(api.Config{
		Service: w.service, Reader: readerOf(w), Ledger: publiclog.Reader{Pool: w.runner.Pool}, Bodies: w.bodies, PublicURL: "https://karatum.com",
		CatchUp: func(context.Context) error { return late }, Written: (&projections.Tally{Runner: w.runner}).Public,
	})
	s := w.challenge(honest)
	a := w.do(http.MethodPost, root+"/consents", encode(s.body))
	size := a.header.Get("Ledger-Size")
	if a.status != http.StatusCreated || size != strconv.Itoa(w.public()) {
		t.Fatalf("the grant: %d, Ledger-Size %q, want %d", a.status, size, w.public())
	}
	path := root + "/consents/" + s.id
	if a := w.do(http.MethodGet, path, ""); a.status != http.StatusNotFound || a.header.Get("Ledger-Size") == size {
		t.Errorf("before the read models have it: %d as of %s", a.status, a.header.Get("Ledger-Size"))
	}
	applied := make(chan error)
	go func() { applied <- w.runner.CatchUp(t.Context()) }()
	if a := w.do(http.MethodGet, path, "", "Ledger-Wait", size); a.status != http.StatusOK || a.header.Get("Ledger-Size") != size {
		t.Errorf("with Ledger-Wait: %d as of %s, want 200 as of %s", a.status, a.header.Get("Ledger-Size"), size)
	}
	w.ok(<-applied)
	for _, query := range []string{"?wait=" + size, "?wait=0", "?wait=" + size + "&format=json"} {
		if a := w.do(http.MethodGet, root+"/consents"+query, ""); a.status != http.StatusOK || !strings.Contains(a.body, s.id) {
			t.Errorf("GET %s: %d: %s", query, a.status, a.body)
		}
	}
	for _, wish := range []string{"", "-1", "1.5", "x", "9999999999999999"} {
		if a := w.do(http.MethodGet, path+"?wait="+wish, ""); a.status != http.StatusUnprocessableEntity {
			t.Errorf("wait=%s: %d, want 422", wish, a.status)
		}
	}
}

// What nobody has written is waited for in vain, for a while: in the read models, and in
// the public log, which has no checkpoint here.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	paths := []string{root, "/v1/ledger/records"}
	answers := make([]chan answer, len(paths))
	for i, path := range paths {
		answers[i] = make(chan answer, 1)
		go func() { answers[i] <- w.do(http.MethodGet, path+"?wait="+strconv.Itoa(w.public()+1), "") }()
	}
	for i, path := range paths {
		a := <-answers[i]
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || a.header.Get("Content-Type") != problem {
			t.Errorf("GET %s: %d %v: %s", path, a.status, a.header, a.body)
		}
	}
}

// A size counts no sealed record, and whoever waits learns nothing of one.
func TestSealedRecordsHaveNoSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	d := w.seal(w.grant(house), house)
	w.ok(w.runner.CatchUp(t.Context()))
	path := fmt.Sprintf("%s?wait=%d", root, w.public())
	before := w.answers([]string{path})
	written := w.written()
	d.send(d.tasks[0], "5280 feet")
	d.step(d.tasks[1], shop.Miss{Reason: shop.OperatorLate})
	if got := w.written(); got != written {
		t.Errorf("sealed records took a write from %d to %d", written, got)
	}
	w.ok(w.runner.CatchUp(t.Context()))
	if diff := cmp.Diff(before, w.answers([]string{path}), cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("what is sealed changed an answer that was waited for (-before +after):\n%s", diff)
	}
}

// written is what a write would say now.
func (w *world) written() uint64 {
	w.t.Helper()
	n, err := (&projections.Tally{Runner: w.runner}).Public(w.t.Context())
	w.ok(err)
	return n
}

// moving bodies record something while an answer is made from them.
type moving struct {
	bodies

	move func()
	n    *int
}

func (m moving) Get(ctx context.Context, key string) (s, body []byte, err error) {
	*m.n++
	m.move()
	return m.bodies.Get(ctx, key)
}

// What is recorded while an answer is made has it made again, so that its parts belong
// together; not for ever.
func TestAnswersAreOfOneMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	d := w.seal(w.grant(house), house)
	d.send(d.tasks[0], "5280 feet")
	d.reveal(d.tasks[0], passed("5280 feet"))
	w.ok(w.runner.CatchUp(t.Context()))
	for _, tt := range []struct {
		name       string
		moves, off int // how often something is recorded, and how many records the size is short of all
	}{{"nothing", 0, 0}, {"once", 1, 0}, {"always", 1000, 1}} {
		moves, readings := tt.moves, 0
		w.handler = api.New(api.Config{
			Service: w.service, Reader: readerOf(w), PublicURL: "https://karatum.com",
			Bodies: moving{w.bodies, func() {
				if moves--; moves >= 0 {
					w.register(agent.Ref(fmt.Sprintf("build:%s-%d", tt.name, moves)))
					w.ok(w.runner.CatchUp(t.Context()))
				}
			}, &readings},
		})
		a := w.do(http.MethodGet, root+"/shops/"+d.shop(d.tasks[0]), "")
		size, err := strconv.Atoi(a.header.Get("Ledger-Size"))
		if want := w.public() - tt.off; a.status != http.StatusOK || err != nil || tt.moves < 2 && size != want || size > want {
			t.Errorf("%s: %d as of %d (%v), want %d", tt.name, a.status, size, err, want)
		}
		if readings > 9 {
			t.Errorf("%s: %d bodies were read", tt.name, readings)
		}
	}
}
