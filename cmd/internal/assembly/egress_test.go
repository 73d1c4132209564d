package assembly_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
)

func TestCheckEgress(t *testing.T) {
	t.Parallel()
	of := func(url, proof, told string, sources ...string) assembly.Config {
		return assembly.Config{PublicURL: url, ProofAddress: proof, SharedEgress: told, Sources: sources}
	}
	const api, proofs, tasks = "https://192.0.2.1", "192.0.2.2", "192.0.2.3"
	for _, tt := range []struct {
		name   string
		config assembly.Config
		kind   error
		says   string
	}{
		{"all apart", of(api, proofs, "", tasks, "2001:db8::3"), nil, ""},
		{"not in production", of("http://localhost:8080", "", ""), nil, ""},
		{"no sources", of(api, proofs, ""), domain.ErrForbidden, "MYSTERY_SOURCE_ADDRESSES"},
		{"no address of proofs", of(api, "", "", tasks), domain.ErrForbidden, "MYSTERY_PROOF_ADDRESS"},
		{"proofs come from there", of(api, tasks, "", "2001:db8::3", tasks), domain.ErrForbidden, "proofs"},
		{"the API is there", of(api, proofs, "", tasks, "192.0.2.1"), domain.ErrForbidden, "the API is at 192.0.2.1"},
		{"told to", of(api, "", "allow"), nil, ""},
		{"told something else", of(api, proofs, "yes", tasks), domain.ErrInvalid, "MYSTERY_SHARED_EGRESS"},
		{"no address", of(api, proofs, "", "tasks.example"), domain.ErrInvalid, "tasks.example"},
	} {
		err := tt.config.CheckEgress(t.Context())
		if !errors.Is(err, tt.kind) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: CheckEgress = %v, want %v that says %q", tt.name, err, tt.kind, tt.says)
		}
	}
}
