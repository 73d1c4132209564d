package commands_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/eventlog/memory"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
)

// counted counts the records that are read of streams.
type counted struct {
	*memory.Log
	read int
}

func (c *counted) Stream(ctx context.Context, s ledger.Stream, version uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range c.Log.Stream(ctx, s, version) {
			c.read++
			if !yield(r, err) {
				return
			}
		}
	}
}

func certify(t *testing.T, s *commands.Service, certificate string) {
	t.Helper()
	m := meta("certify " + certificate)
	if err := s.Agent(t.Context(), m, ref, agent.RecordCertificate{Certificate: certificate}); err != nil {
		t.Fatal(err)
	}
}

// Whoever appends many times to one stream reads each record once, and sees what
// others append meanwhile.
func TestHistoryIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := &counted{Log: w.log}
	w.Log = log
	other := *w.Service
	other.Histories = nil // another process
	const n = 50
	for i := range n {
		certify(t, w.Service, fmt.Sprint("mine ", i))
		other.Log = w.log
		certify(t, &other, fmt.Sprint("theirs ", i))
		certify(t, w.Service, fmt.Sprint("theirs ", i)) // no news
	}
	if records := len(w.types(t, agent.StreamOf(ref))); log.read > records {
		t.Errorf("%d records read, want each of %d once at most", log.read, records)
	}
	known, err := w.KnownAgent(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		for _, who := range []string{"mine ", "theirs "} {
			if name := fmt.Sprint(who, i); !known.Certificates[name] {
				t.Errorf("certificate %q is unknown", name)
			}
		}
	}
}

// A command that was carried out has no second effect, however much of its stream
// is known already.
func TestHistoryKnowsCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	certify(t, w.Service, "a")
	if err := w.Agent(t.Context(), meta("withdraw"), ref, agent.WithdrawCertificate{Certificate: "a"}); err != nil {
		t.Fatal(err)
	}
	before := len(w.records(t))
	certify(t, w.Service, "a") // the same command again
	if got := len(w.records(t)) - before; got != 0 {
		t.Errorf("%d records of a repeated command, want none", got)
	}
}

// What callers do to the state that they were given changes nobody else's.
func TestHistoryIsNotShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		known, err := w.KnownAgent(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if known.Certificates["forged"] {
			t.Fatal("one caller sees what another has done to its state")
		}
		known.Certificates["forged"] = true
	}
}

// A history that is not what the log holds is given up at the first conflict.
func TestHistoryOfAnotherLogIsGivenUp(t *testing.T) {
	t.Parallel()
	w, stale := newWorld(t), newWorld(t)
	certify(t, stale.Service, "a")
	certify(t, stale.Service, "b")
	w.Histories = stale.Histories // as if the log had been put back to an older state
	if err := w.Agent(t.Context(), meta("new"), ref, agent.RecordCertificate{Certificate: "c"}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "what only the other log has", w.Agent(t.Context(), meta("gone"), ref, agent.WithdrawCertificate{Certificate: "a"}), domain.ErrNotFound)
}
