package agent_test

import (
	"os"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/task"
)

const (
	ref  = agent.Ref("build:42")
	home = "https://agent.example/a2a"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	wallet := eip191.Address{1}
	registered := agent.Registered{Agent: ref, Wallet: wallet}
	verified := agent.IdentityVerified{URL: home}
	withdrawn := agent.IdentityWithdrawn{URL: home, Reason: "the domain was sold"}
	sold := agent.OwnerChanged{From: wallet, To: eip191.Address{2}, Reason: "sold"}
	certified := agent.CertificateRecorded{Certificate: "cert_7"}
	void := agent.CertificateWithdrawn{Certificate: "cert_7", Reason: "issued in error"}
	seen := agent.SurfaceObserved{Kind: task.A2A, URL: home, Surface: domain.Hash{1}}
	changed := agent.SurfaceObserved{Kind: task.A2A, URL: home, Surface: domain.Hash{2}}
	elsewhere := agent.SurfaceObserved{Kind: task.A2A, URL: home + "/b", Surface: domain.Hash{1}}

	type events = []agent.Event
	domaintest.Decide(t, agent.Decider, []domaintest.Case[agent.Command, agent.Event]{
		{Name: "register", When: agent.Register(registered), Then: events{registered}},
		{Name: "register again", Given: events{registered}, When: agent.Register(registered)},
		{
			Name: "register with another wallet", Given: events{registered},
			When: agent.Register{Agent: ref, Wallet: eip191.Address{2}}, Err: domain.ErrConflict,
		},
		{
			Name: "register as a demo after all", Given: events{registered},
			When: agent.Register{Agent: ref, Wallet: wallet, Demo: true}, Err: domain.ErrConflict,
		},

		{Name: "verify identity", Given: events{registered}, When: agent.VerifyIdentity(verified), Then: events{verified}},
		{Name: "verify identity again", Given: events{registered, verified}, When: agent.VerifyIdentity(verified)},
		{
			Name: "verify identity after it was withdrawn", Given: events{registered, verified, withdrawn},
			When: agent.VerifyIdentity(verified), Then: events{verified},
		},
		{Name: "verify identity of nobody", When: agent.VerifyIdentity(verified), Err: domain.ErrNotFound},
		{
			Name: "withdraw identity", Given: events{registered, verified},
			When: agent.WithdrawIdentity(withdrawn), Then: events{withdrawn},
		},
		{
			Name: "withdraw identity that was never verified", Given: events{registered},
			When: agent.WithdrawIdentity(withdrawn), Err: domain.ErrNotFound,
		},
		{
			Name: "withdraw identity twice", Given: events{registered, verified, withdrawn},
			When: agent.WithdrawIdentity(withdrawn), Err: domain.ErrNotFound,
		},
		{Name: "withdraw identity of nobody", When: agent.WithdrawIdentity(withdrawn), Err: domain.ErrNotFound},

		{Name: "change owner", Given: events{registered}, When: agent.ChangeOwner{To: eip191.Address{2}, Reason: "sold"}, Then: events{sold}},
		{Name: "change owner to the same", Given: events{registered}, When: agent.ChangeOwner{To: wallet, Reason: "sold"}},
		{Name: "change owner twice", Given: events{registered, sold}, When: agent.ChangeOwner{To: eip191.Address{2}, Reason: "sold"}},
		{
			Name: "change owner back", Given: events{registered, sold}, When: agent.ChangeOwner{To: wallet, Reason: "returned", At: agent.Block{Chain: 1, Number: 7}},
			Then: events{agent.OwnerChanged{From: eip191.Address{2}, To: wallet, Reason: "returned", At: agent.Block{Chain: 1, Number: 7}}},
		},
		{
			Name: "register again after a change of owner", Given: events{registered, sold},
			When: agent.Register(registered), Err: domain.ErrConflict,
		},
		{Name: "change owner of nobody", When: agent.ChangeOwner{To: wallet}, Err: domain.ErrNotFound},

		{Name: "record certificate", Given: events{registered}, When: agent.RecordCertificate(certified), Then: events{certified}},
		{Name: "record certificate again", Given: events{registered, certified}, When: agent.RecordCertificate(certified)},
		{Name: "record certificate of nobody", When: agent.RecordCertificate(certified), Err: domain.ErrNotFound},
		{
			Name: "withdraw certificate", Given: events{registered, certified},
			When: agent.WithdrawCertificate(void), Then: events{void},
		},
		{
			Name: "withdraw certificate never held", Given: events{registered},
			When: agent.WithdrawCertificate(void), Err: domain.ErrNotFound,
		},
		{
			Name: "withdraw certificate twice", Given: events{registered, certified, void},
			When: agent.WithdrawCertificate(void), Err: domain.ErrNotFound,
		},

		{
			Name: "observe another protocol at the same URL", Given: events{registered, seen},
			When: agent.ObserveSurface{Kind: task.MCP, URL: home, Surface: domain.Hash{1}},
			Then: events{agent.SurfaceObserved{Kind: task.MCP, URL: home, Surface: domain.Hash{1}}},
		},
		{Name: "observe surface", Given: events{registered}, When: agent.ObserveSurface(seen), Then: events{seen}},
		{Name: "observe the same surface", Given: events{registered, seen}, When: agent.ObserveSurface(seen)},
		{
			Name: "observe another surface", Given: events{registered, seen},
			When: agent.ObserveSurface(changed), Then: events{changed},
		},
		{
			Name: "observe the first surface anew", Given: events{registered, seen, changed},
			When: agent.ObserveSurface(seen), Then: events{seen},
		},
		{
			Name: "observe the same surface elsewhere", Given: events{registered, seen},
			When: agent.ObserveSurface(elsewhere), Then: events{elsewhere},
		},
		{Name: "observe surface of nobody", When: agent.ObserveSurface(seen), Err: domain.ErrNotFound},
	})
}

func TestState(t *testing.T) {
	t.Parallel()
	s := agent.Decider.Replay(
		agent.Registered{Agent: ref, Wallet: eip191.Address{1}, Demo: true},
		agent.IdentityVerified{URL: "https://agent.example/a2a"},
		agent.IdentityVerified{URL: "https://agent.example/old"},
		agent.IdentityWithdrawn{URL: "https://agent.example/old", Reason: "moved"},
	)
	if !s.Registered || s.Ref != ref || s.Wallet != (eip191.Address{1}) || !s.Demo {
		t.Errorf("state = %+v, want the agent as registered", s)
	}
	for endpoint, want := range map[string]bool{
		"https://agent.example/a2a": true,
		"https://agent.example/old": false,
		"https://agent.example/":    false,
	} {
		if got := s.VerifiedFor(endpoint); got != want {
			t.Errorf("VerifiedFor(%s) = %t, want %t", endpoint, got, want)
		}
	}
	if (agent.State{}).VerifiedFor(home) {
		t.Error("nobody's identity covers an endpoint")
	}
}

func TestCertified(t *testing.T) {
	t.Parallel()
	registered := agent.Registered{Agent: ref, Wallet: eip191.Address{1}}
	first, second := agent.CertificateRecorded{Certificate: "1"}, agent.CertificateRecorded{Certificate: "2"}
	for _, tt := range []struct {
		name   string
		events []agent.Event
		want   bool
	}{
		{"without a certificate", []agent.Event{registered}, false},
		{"with one", []agent.Event{registered, first}, true},
		{"with one of two", []agent.Event{registered, first, second, agent.CertificateWithdrawn{Certificate: "1"}}, true},
		{"after the last", []agent.Event{registered, first, agent.CertificateWithdrawn{Certificate: "1"}}, false},
		{"a demo", []agent.Event{agent.Registered{Agent: ref, Demo: true}}, true},
	} {
		if got := agent.Decider.Replay(tt.events...).Certified(); got != tt.want {
			t.Errorf("Certified() %s = %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestStreamOf(t *testing.T) {
	t.Parallel()
	if got := agent.StreamOf(ref); got != "agent/build:42" {
		t.Errorf("StreamOf(%s) = %s, want agent/build:42", ref, got)
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, agent.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, agent.Events, os.DirFS("testdata"))
}
