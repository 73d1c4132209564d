package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/task"
)

// onRegistry is an agent that is known by its token.
const onRegistry = agent.Ref("erc8004:84532:0x8004a818bfb912233c491871b3d84c89a494bd9e:0")

// A registry is a chain on which one token has an owner.
type registry struct {
	mu    sync.Mutex
	owner eip191.Address
	down  bool
}

func (r *registry) set(owner eip191.Address, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owner, r.down = owner, down
}

func (r *registry) VerifyWallet(_ context.Context, chain uint64, _ eip191.Address, _ domain.Hash, _ []byte) (consent.Verification, error) {
	return consent.Verification{}, commands.NoNode(chain)
}

func (r *registry) OwnerOf(_ context.Context, t agent.Token) (agent.Ownership, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return agent.Ownership{}, fmt.Errorf("the node does not answer: %w", domain.ErrUnavailable)
	}
	return agent.Ownership{Owner: r.owner, At: agent.Block{Chain: t.Chain, Number: 7, Hash: agent.BlockHash{7}}}, nil
}

// ends returns when and why the consents of an agent ended.
func (s *stage) ends(t *testing.T, ref agent.Ref) (at time.Time, ended []consent.EndReason) {
	t.Helper()
	for r, e := range s.eventsOf(t, consent.StreamOf(ref)) {
		if e, ok := e.(consent.Ended); ok {
			at, ended = r.Time, append(ended, e.Reason)
		}
	}
	return at, ended
}

// The registry is asked every hour. A chain that cannot be read changes nothing;
// one that names another owner ends the consent, and what was sent comes out.
func TestTransferOnRegistryEndsConsent(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "61")
	chain := &registry{owner: s.owner}
	s.prog.Service.Chains = chain
	m := ledger.Meta{Actor: "operator", Command: "token"}
	if err := s.prog.Service.Agent(t.Context(), m, onRegistry, agent.Register{Agent: onRegistry, Wallet: s.owner, Demo: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.prog.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := s.give(t, func(r *consent.Request) { r.Agent, r.MaxPerDay, r.MaxPerWeek = onRegistry, 24, 100 })
	s.days(t, 2.4)
	stranger := eip191.Address{1}
	chain.set(stranger, true)
	s.days(t, 2.6)
	if _, ended := s.ends(t, onRegistry); len(ended) != 0 {
		t.Fatalf("a chain that cannot be read ended the consent: %v", ended)
	}
	sold := s.clock.Now()
	chain.set(stranger, false)
	s.days(t, 3)
	at, ended := s.ends(t, onRegistry)
	if !slices.Equal(ended, []consent.EndReason{consent.OwnerChanged}) || at.Before(sold) || at.After(sold.Add(time.Hour+time.Minute)) {
		t.Errorf("ended %v at %s, want once within the hour from %s", ended, at, sold)
	}
	known, err := s.prog.Service.KnownAgent(t.Context(), onRegistry)
	if err != nil || known.Wallet != stranger {
		t.Errorf("the known owner is %s, %v, want %s", known.Wallet, err, stranger)
	}
	c := s.chronicle(t, p)
	if len(c.sent) == 0 || len(c.opened) != 2 {
		t.Errorf("%d tasks sent, %d days opened; the test needs some of the first, and wants both days", len(c.sent), len(c.opened))
	}
	for _, sent := range c.sent {
		if sent.After(at) {
			t.Errorf("a task was sent at %s, and the consent ended at %s", sent, at)
		}
	}
	s.settled(t)
}

// What an operator records ends a consent at once. If the process ends between the
// two records, the cycle makes it good within the hour.
func TestLostCertificateEndsConsent(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s := bare(t, "62")
	const ref = agent.Ref("build:certified")
	service := s.prog.Service
	for i, c := range []agent.Command{agent.Register{Agent: ref, Wallet: s.owner}, agent.RecordCertificate{Certificate: "crt_1"}} {
		if err := service.Agent(t.Context(), ledger.Meta{Actor: "operator", Command: fmt.Sprint("prepare ", i)}, ref, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.prog.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := s.give(t, func(r *consent.Request) {
		r.Agent, r.MaxPerDay, r.MaxPerWeek = ref, 24, 100
		r.Endpoints, r.Kinds = r.Endpoints[:1], []task.Kind{task.A2A}
	})
	s.days(t, 1.7)
	half := agent.CertificateWithdrawn{Certificate: "crt_1", Reason: "issued in error"}
	if err := service.Log.Append(t.Context(), agent.StreamOf(ref), s.version(t, agent.StreamOf(ref)), ledger.Meta{Actor: "operator", Command: "half", Correlation: "half"}, half); err != nil {
		t.Fatal(err)
	}
	withdrawn := s.clock.Now()
	s.days(t, 2)
	at, ended := s.ends(t, ref)
	if !slices.Equal(ended, []consent.EndReason{consent.CertificateWithdrawn}) || at.After(withdrawn.Add(time.Hour+time.Minute)) {
		t.Errorf("ended %v at %s, want once within the hour from %s", ended, at, withdrawn)
	}
	c := s.chronicle(t, p)
	for _, sent := range c.sent {
		if sent.After(at) {
			t.Errorf("a task was sent at %s, and the consent ended at %s", sent, at)
		}
	}
	if c.results["cancelled/consent_over"] == 0 {
		t.Errorf("no task was cancelled: %v", c.results)
	}
	s.settled(t)
}

func (s *stage) version(t *testing.T, stream ledger.Stream) (n uint64) {
	t.Helper()
	for r, err := range s.prog.Service.Log.Stream(t.Context(), stream, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n = r.Version
	}
	return n
}
