package agent

import (
	"fmt"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/producer"
)

// Limits of what producers put on record for ever.
const (
	maxCertificate = 100
	maxURL         = 2000
)

// claim returns nil for what a producer may say of an agent, and for what it does not
// say. A producer speaks of builds: who owns an agent on an ERC-8004 identity registry is
// read there. Which agents are Karatum's own is for the operator to say.
func claim(s State, c Command) error {
	if by, ok := c.(interface{ Proof() producer.Signed }); !ok || by.Proof().Producer == "" {
		return nil
	}
	switch c := c.(type) {
	case Register:
		_, onRegistry := c.Agent.Token()
		switch {
		case onRegistry || c.At != (Block{}):
			return errOnRegistry
		case c.Demo:
			return fmt.Errorf("a producer cannot say that an agent is Karatum's own: %w", domain.ErrForbidden)
		case c.Wallet.IsZero():
			return fmt.Errorf("an agent is registered with the wallet of its owner: %w", domain.ErrInvalid)
		}
	case ChangeOwner:
		if _, onRegistry := s.Ref.Token(); onRegistry || c.At != (Block{}) {
			return errOnRegistry
		}
		return domain.CheckReason(c.Reason)
	case VerifyIdentity:
		return printable("the URL of an identity", c.URL, maxURL)
	case WithdrawIdentity:
		return domain.CheckReason(c.Reason)
	case RecordCertificate:
		return printable("the id of a certificate", c.Certificate, maxCertificate)
	case WithdrawCertificate:
		return domain.CheckReason(c.Reason)
	case ObserveSurface:
	}
	return nil
}

var errOnRegistry = fmt.Errorf("the owner of an ERC-8004 agent is read on its registry, and no producer says who it is: %w", domain.ErrForbidden)

func printable(what, text string, limit int) error {
	if !domain.Printable(text, limit) {
		return fmt.Errorf("%s is 1 to %d printable ASCII characters: %w", what, limit, domain.ErrInvalid)
	}
	return nil
}
