package programme_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/programme"
)

func TestScopeCheck(t *testing.T) {
	t.Parallel()
	for _, s := range []programme.Scope{
		programme.Everything,
		programme.OfHost("agent.example:443"), programme.OfHost("127.0.0.1:8080"), programme.OfHost("[2001:db8::1]:8443"),
		programme.OfConsent("cns_evmwdbivcm7gsejx5jq2"),
		programme.OfTemplate("unit.convert"),
		programme.OfIdentity(0), programme.OfIdentity(11),
	} {
		if err := s.Check(); err != nil {
			t.Errorf("Check(%s) = %v, want nil", s, err)
		}
	}
	for _, s := range []programme.Scope{
		"", "/", "Everything", "everything/", "everything/at/all", "nothing",
		"host", "host/", "host/agent.example", "host/Agent.example:443", "host/agent.example:0443", "host/agent.example:",
		"host/https://agent.example:443", "host/agent.example:443/a2a", "host/agent..example:443", "host/agent.example:443\n",
		"consent/", "consent/cns_", "consent/cns_EVMWDBIVCM7GSEJX5JQ2", "consent/cns_evmwdbivcm7gsejx5jq2x", "cns_evmwdbivcm7gsejx5jq2",
		"template/", "template/unit", "template/unit.convert/1",
		"identity/", "identity/12", "identity/-1", "identity/03", "identity/three", "identity/99999999999999999999",
	} {
		if err := s.Check(); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Check(%q) = %v, want ErrInvalid", s, err)
		}
	}
}

// A task is held back by each scope that it falls under, and by no other.
func TestTaskScopes(t *testing.T) {
	t.Parallel()
	got := programme.Task{Consent: "cns_evmwdbivcm7gsejx5jq2", Host: "agent.example:443", Template: "unit.convert", Identity: 3}.Scopes()
	want := []programme.Scope{
		"everything", "host/agent.example:443", "consent/cns_evmwdbivcm7gsejx5jq2", "template/unit.convert", "identity/3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Scopes() = %v, want %v", got, want)
	}
	for _, s := range got {
		if err := s.Check(); err != nil {
			t.Errorf("Check(%s) = %v, want nil", s, err)
		}
	}
}
