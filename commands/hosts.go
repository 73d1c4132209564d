package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
)

// Hosts answers for the hosts of endpoints.
type Hosts interface {
	// Check returns nil if a URL may be shopped at all, else an error matching
	// [domain.ErrInvalid].
	Check(url string) error

	// Prove returns nil if the host of the endpoint says that owner owns it, an
	// error matching [ErrStopped] if it wants no tasks whoever owns it, one
	// matching [domain.ErrForbidden] if it says otherwise or nothing, and any
	// other error if it could not be asked. The sentence of an ErrForbidden may go
	// on record: it holds nothing that came from the host.
	Prove(ctx context.Context, endpoint string, owner eip191.Address) error
}

// ErrStopped is the error of a host that wants no tasks.
var ErrStopped = domain.WithCode(domain.HostStopped,
	fmt.Errorf("its host wants no tasks, with stop in /.well-known/karatum-mystery.json: %w", domain.ErrForbidden))

// proofTimeout bounds the question to one host. The host itself has ten seconds.
const proofTimeout = 15 * time.Second

// Proofs asks, for each endpoint of a payload, whether it is the owner's: by a
// verified identity of the agent, else by the document at its host. The document
// is asked for in both cases, since whoever controls a host can stop it.
func (s *Service) Proofs(ctx context.Context, known agent.State, p consent.Payload) []consent.Proof {
	proofs := make([]consent.Proof, len(p.Endpoints))
	var g errgroup.Group
	for i, e := range p.Endpoints {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, proofTimeout)
			defer cancel()
			switch err := s.Hosts.Prove(ctx, e.URL, p.Owner); {
			case errors.Is(err, ErrStopped):
				proofs[i].Reason, proofs[i].Cause = domain.Sentence(ErrStopped), consent.HostStopped
			case known.VerifiedFor(e.URL):
				proofs[i].Method = consent.ByIdentity
			case err == nil:
				proofs[i].Method = consent.ByDocument
			case errors.Is(err, domain.ErrForbidden), errors.Is(err, domain.ErrInvalid):
				proofs[i].Reason, proofs[i].Cause = domain.Sentence(err), consent.HostCause(err)
			default:
				proofs[i].Reason, proofs[i].Unknown = "/.well-known/karatum-mystery.json at its host could not be read", true
			}
			return nil
		})
	}
	_ = g.Wait() // its functions return nil
	return proofs
}
