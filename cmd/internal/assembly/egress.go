package assembly

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/karatum/mystery/domain"
)

// sharedAllowed is what MYSTERY_SHARED_EGRESS says to shop all the same.
const sharedAllowed = "allow"

// CheckEgress returns nil if tasks come from addresses of their own, as far as the
// Config and the name of the public URL tell, or need not. Otherwise its error, which
// matches [domain.ErrForbidden], says by what an agent could know them: its host sees
// where proofs and exams come from, and anybody where the API is.
//
// It asks for nothing unless the public URL is https, which it is wherever owners sign.
func (c Config) CheckEgress(ctx context.Context) error {
	u, err := url.Parse(c.PublicURL)
	switch {
	case err != nil:
		return fmt.Errorf("MYSTERY_PUBLIC_URL %q cannot be read: %w", c.PublicURL, domain.ErrInvalid)
	case c.SharedEgress != "" && c.SharedEgress != sharedAllowed:
		return fmt.Errorf("MYSTERY_SHARED_EGRESS is %q; it may be %q or empty: %w", c.SharedEgress, sharedAllowed, domain.ErrInvalid)
	case u.Scheme != "https" || c.SharedEgress == sharedAllowed:
		return nil
	case len(c.Sources) == 0:
		return shared("MYSTERY_SOURCE_ADDRESSES does not say where tasks come from")
	case c.ProofAddress == "":
		return shared("MYSTERY_PROOF_ADDRESS does not say where host proofs and exams come from")
	}
	sources := make([]netip.Addr, len(c.Sources))
	for i, text := range c.Sources {
		if sources[i], err = netip.ParseAddr(text); err != nil {
			return fmt.Errorf("MYSTERY_SOURCE_ADDRESSES: %q is not an IP address: %w", text, domain.ErrInvalid)
		}
	}
	if a, err := netip.ParseAddr(c.ProofAddress); err == nil && slices.Contains(sources, a) {
		return shared("host proofs and exams come from " + c.ProofAddress)
	}
	// A name that cannot be found out now keeps nobody from work.
	found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	for _, a := range found {
		if slices.Contains(sources, a.Unmap()) {
			return shared("the API is at " + a.Unmap().String())
		}
	}
	return nil
}

func shared(how string) error {
	return fmt.Errorf("tasks could be known by their address, for %s; give them addresses of their own and name them "+
		"in MYSTERY_SOURCE_ADDRESSES, or set MYSTERY_SHARED_EGRESS=%s to shop all the same: %w",
		strings.TrimSpace(how), sharedAllowed, domain.ErrForbidden)
}
