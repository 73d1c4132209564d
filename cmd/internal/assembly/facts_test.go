package assembly_test

import (
	"errors"
	"testing"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
)

func TestAbuseContact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, url, contact, want string
	}{
		{"nothing said", "https://karatum.com", "", "mailto:abuse@karatum.com"},
		{"nothing said, with a port", "http://localhost:8080", "", "mailto:abuse@localhost"},
		{"an address", "https://karatum.com", "mailto:stop@karatum.com", "mailto:stop@karatum.com"},
		{"a form", "https://karatum.com", "https://karatum.com/abuse", "https://karatum.com/abuse"},
		{"an address that is no URI", "https://karatum.com", "stop@karatum.com", ""},
		{"a form that is not safe", "https://karatum.com", "http://karatum.com/abuse", ""},
		{"a script", "https://karatum.com", "javascript:alert(1)", ""},
		{"a second line", "https://karatum.com", "mailto:a@b\nContact: mailto:c@d", ""},
		{"no address", "https://karatum.com", "mailto:", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := assembly.Config{PublicURL: tt.url, AbuseContact: tt.contact}.Abuse()
			if got != tt.want || (tt.want == "") != errors.Is(err, domain.ErrInvalid) {
				t.Errorf("Abuse() = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
