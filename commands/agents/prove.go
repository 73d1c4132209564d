package agents

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

const (
	proofPath    = "/.well-known/karatum-mystery.json"
	maxProof     = 64 << 10
	proofTimeout = 20 * time.Second
)

// Prove checks that the host of endpoint says it belongs to owner: the document
// at /.well-known/karatum-mystery.json, which names its owners as
//
//	{"owners": ["0x…"]}
//
// The fetch makes itself known as KaratumBot, is no part of any task and follows
// no redirect to another host. It returns nil if owner is listed, an error
// matching [domain.ErrForbidden] if the host is clear that it is not (there is no
// document, or none that lists it), and [domain.ErrUnavailable] if the host could
// not be asked, which proves neither.
func (n Net) Prove(ctx context.Context, endpoint string, owner eip191.Address) error {
	u, err := n.parse(endpoint)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	line := n.Line(ctx, crawler(), nil)
	defer line.Close()
	line.hop = SameHost
	target := url.URL{Scheme: u.Scheme, Host: u.Host, Path: proofPath}
	doc, err := line.Get(ctx, target.String(), http.Header{"Accept": {"application/json"}}, maxProof)
	var e *Error
	switch {
	case errors.As(err, &e) && e.Code == TooLarge:
		return fmt.Errorf("the host proof of %s is longer than %d bytes: %w", u.Host, maxProof, domain.ErrForbidden)
	case errors.As(err, &e):
		return fmt.Errorf("the host proof of %s could not be read, %s: %w", u.Host, e.Reason, domain.ErrUnavailable)
	case err != nil:
		return fmt.Errorf("the host proof of %s could not be read: %w", u.Host, err)
	case doc.Status == http.StatusNotFound, doc.Status == http.StatusGone:
		return fmt.Errorf("%s has no host proof at %s: %w", u.Host, proofPath, domain.ErrForbidden)
	case doc.Status != http.StatusOK:
		return fmt.Errorf("the host proof of %s could not be read, HTTP %d: %w", u.Host, doc.Status, domain.ErrUnavailable)
	case !lists(doc.Body, owner):
		return fmt.Errorf("the host proof of %s does not list %s: %w", u.Host, owner, domain.ErrForbidden)
	}
	return nil
}

// lists reports whether a host proof names owner. Addresses are compared as
// bytes, and their letters may be in any case.
func lists(doc []byte, owner eip191.Address) bool {
	var proof struct {
		Owners []string `json:"owners"`
	}
	if json.Unmarshal(doc, &proof) != nil {
		return false
	}
	for _, text := range proof.Owners {
		digits, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(text)), "0x")
		if b, err := hex.DecodeString(digits); ok && err == nil && string(b) == string(owner[:]) {
			return true
		}
	}
	return false
}
