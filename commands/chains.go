package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
)

// Chains answers for the contracts of owners. Where no node of a chain is
// configured its methods return an error matching [domain.ErrInvalid] with the
// code [domain.ChainNotConfigured], best that of [NoNode]; where the nodes do not
// answer, one matching [domain.ErrUnavailable].
type Chains interface {
	// VerifyWallet asks whether the contract wallet at owner accepts a signature of
	// hash, by ERC-1271 or, if it is yet to be deployed, by ERC-6492. It returns
	// an error matching [domain.ErrForbidden] if it does not, or is no contract.
	VerifyWallet(ctx context.Context, chain uint64, owner eip191.Address, hash domain.Hash, sig []byte) (consent.Verification, error)

	// OwnerOf returns who owns an agent on an ERC-8004 registry, and at which block
	// of the chain that was so. Of a token that does not exist, or not any more,
	// the owner is zero.
	OwnerOf(ctx context.Context, t agent.Token) (agent.Ownership, error)
}

// HomeChain is where the contracts of owners are looked for unless something else
// says so: Base Sepolia.
const HomeChain = 84532

// NoNode is the error of [Chains] about a chain that no node is configured for.
func NoNode(chain uint64) error {
	return domain.WithCode(domain.ChainNotConfigured, fmt.Errorf(
		"no node of chain %d is configured here, so no contract on it can be asked: neither a contract wallet nor an identity registry: %w",
		chain, domain.ErrInvalid))
}

// chainTimeout bounds one question to a chain.
const chainTimeout = 20 * time.Second

// chainOf returns the chain on which the contracts of an agent's owner are.
func (s *Service) chainOf(ref agent.Ref) uint64 {
	if t, ok := ref.Token(); ok {
		return t.Chain
	}
	if s.Chain != 0 {
		return s.Chain
	}
	return HomeChain
}

// Ownership returns who owns an agent now: of a build the wallet that is known of
// it, of an ERC-8004 agent the one that its registry names.
func (s *Service) Ownership(ctx context.Context, known agent.State) (agent.Ownership, error) {
	t, ok := known.Ref.Token()
	if !ok {
		return agent.Ownership{Owner: known.Wallet}, nil
	}
	return s.OwnerOf(ctx, t)
}

// OwnerOf asks the registry of a token, see [Chains].
func (s *Service) OwnerOf(ctx context.Context, t agent.Token) (agent.Ownership, error) {
	if s.Chains == nil {
		return agent.Ownership{}, NoNode(t.Chain)
	}
	ctx, cancel := context.WithTimeout(ctx, chainTimeout)
	defer cancel()
	o, err := s.Chains.OwnerOf(ctx, t)
	return o, chainError(err)
}

// verify finds out how the owner that p names signed a message: by the plain key,
// or else by the contract at its address. The zero Verification says that the key
// did, which the decider sees for itself; an error that nobody did. wallet says
// whether a contract may have: if it may not, its word is heard, but its silence
// means no more than that the key is not the owner's.
func (s *Service) verify(ctx context.Context, p consent.Payload, wallet bool, message string, sig consent.Signature) (consent.Verification, error) {
	_, plain := consent.VerifyPlain(message, p.Owner, sig)
	if plain == nil {
		return consent.Verification{}, nil
	}
	v, err := s.askWallet(ctx, p.Chain, p.Owner, message, sig)
	switch {
	case err == nil:
		return v, nil
	case !wallet:
		return consent.Verification{}, plain
	case errors.Is(err, domain.ErrForbidden) && len(sig) <= len(eip191.Signature{}):
		return consent.Verification{}, plain
	case errors.Is(err, domain.ErrForbidden):
		return consent.Verification{}, domain.WithCode(domain.WrongSigner, fmt.Errorf(
			"no contract wallet at %s on chain %d accepts this signature: %w", p.Owner, p.Chain, domain.ErrForbidden))
	}
	return consent.Verification{}, err
}

func (s *Service) askWallet(ctx context.Context, chain uint64, owner eip191.Address, message string, sig consent.Signature) (consent.Verification, error) {
	if s.Chains == nil {
		return consent.Verification{}, NoNode(chain)
	}
	ctx, cancel := context.WithTimeout(ctx, chainTimeout)
	defer cancel()
	v, err := s.Chains.VerifyWallet(ctx, chain, owner, eip191.Hash(message), sig)
	return v, chainError(err)
}

// chainError gives the error of a chain that does not answer its code.
func chainError(err error) error {
	if errors.Is(err, domain.ErrUnavailable) && domain.CodeOf(err) == "" {
		return domain.WithCode(domain.ChainUnavailable, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return domain.WithCode(domain.ChainUnavailable, fmt.Errorf("the chain did not answer in time; try again: %w", domain.ErrUnavailable))
	}
	return err
}
