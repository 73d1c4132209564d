// Package attester rolls commits into batches, and has the batches attested on a
// chain through EAS.
//
// An [Attester] seals a batch when one is due, and carries every batch that is not
// final one step on: it signs, sends, raises the fees, records that the batch is
// attested or final, or that a reorganisation took that back. What is to be done is
// decided by [batch.Next] from what the ledger says and what the chain shows now;
// the Attester keeps nothing in memory that matters. It may be killed at any moment
// and started elsewhere.
//
// One batch must not be attested twice, though a transaction may be mined long after
// it was given up, and any answer may be lost on the way. So the order is fixed:
//
//   - A signed transaction is stored, then put on record by batch.submitted, then
//     sent. One that is on record and was not sent is sent again, byte for byte.
//   - As long as none of them is mined, all transactions of a batch have one nonce
//     and say the same; of those with one nonce, one at most can be mined.
//   - A new nonce is taken when another transaction with the old one is confirmed,
//     and a first transaction is signed after the chain was searched for an
//     attestation of the batch that the ledger does not know of.
//   - The next batch is signed when the one before it is attested.
//
// Several Attesters with one key may run on one ledger. They take turns, by a lease; and
// what keeps them from contradicting each other, should two work at once, is what is on
// record: a transaction is not recorded if another one came after it was decided upon.
// The key must not be used for anything else.
//
// What only the operator can mend, such as an account without funds or a chain
// without EAS, stops the Attester in a state that [Attester.Status] tells; it looks
// again at every step, and goes on when it is mended. Batches are sealed meanwhile
// and wait.
package attester

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"

	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
)

// An Attester attests batches. All fields but Key, Resolver, Leases and Log are required.
// Its methods may be called from several goroutines.
type Attester struct {
	Ledger       Ledger
	Reads        Reads
	Transactions Transactions
	Leases       Leases // nil: no other process attests

	Chain    *rpc.Client    // that batches are attested on
	EAS      eas.Deployment // on that chain
	Resolver common.Address // of the schema; zero if it has none

	// Key signs. Without one, batches are sealed here and attested elsewhere.
	Key *Key

	Policy batch.Policy

	// Ceiling is the most that is paid for a unit of gas, in wei. What costs more
	// waits for cheaper times.
	Ceiling *big.Int

	Now  func() time.Time // programme time
	Rand io.Reader        // of command ids
	Log  *slog.Logger

	mu       sync.Mutex // of one step at a time
	status   Status
	holder   string // of the lease
	examined bool   // nothing was missing
}

// A Ledger carries out commands on batches and tells where they stand.
type Ledger interface {
	Batch(ctx context.Context, m ledger.Meta, n uint64, c batch.Command) error
	BatchState(ctx context.Context, n uint64) (batch.State, error)
}

// Reads are read models. They may be behind the ledger, and are brought up to it by
// CatchUp.
type Reads interface {
	CatchUp(ctx context.Context) error

	// BatchNumbers returns the numbers of the first batch that is not final and of
	// the last batch; 0 where there is none.
	BatchNumbers(ctx context.Context) (open, last uint64, err error)

	// OpenCommits returns commits that are in no batch, as far as the first size
	// leaves of the public log hold them, in their order and limit at most.
	OpenCommits(ctx context.Context, size uint64, limit int) ([]batch.Open, error)

	// LogHead returns size and root of the public log as of its latest checkpoint. If
	// there is none, that is a [domain.ErrNotFound].
	LogHead(ctx context.Context) (size uint64, root domain.Hash, err error)
}

// A Transaction is one that was signed.
type Transaction struct {
	Hash    batch.Word
	Chain   uint64
	Account eip191.Address
	Nonce   uint64
	Batch   uint64 // 0: is of none
	Raw     []byte // as it is sent
	Signed  time.Time
}

// Transactions keeps what was signed, for good.
type Transactions interface {
	// Keep stores a transaction. When it returns nil, that is durable.
	Keep(ctx context.Context, t Transaction) error

	// WithNonce returns the transactions of an account on a chain that have a nonce,
	// in the order in which they were signed.
	WithNonce(ctx context.Context, chain uint64, account eip191.Address, nonce uint64) ([]Transaction, error)

	// Note stores how attesting goes.
	Note(ctx context.Context, s Status) error
}

// Leases let one process attest at a time.
type Leases interface {
	// TryAcquire gives holder the lease called name for ttl from now, or renews it, unless
	// somebody else has it. It reports whether holder has it.
	TryAcquire(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)

	// Release gives the lease back if holder has it.
	Release(ctx context.Context, name, holder string) error
}

// The leases of sealing batches and of attesting them, and how long a process that has
// vanished holds others up.
const (
	sealerLease = "batcher"
	leaseName   = "attester"
	leaseLife   = time.Minute
)

// A Status says how attesting goes.
type Status struct {
	State  string
	Detail string // for people
	Since  time.Time
}

// States of an Attester.
const (
	Well        = "ok"
	Idle        = "idle"        // another process attests
	Unreachable = "unreachable" // the chain, or the ledger, cannot be read; tried again
	Stopped     = "stopped"     // the operator has to mend something
)

// ErrStopped marks what only the operator can mend. It is a [domain.ErrForbidden].
var ErrStopped = fmt.Errorf("attesting has stopped: %w", domain.ErrForbidden)

// A stoppedError is an ErrStopped with a reason. Its text is the reason alone.
type stoppedError struct{ reason error }

func (e stoppedError) Error() string   { return e.reason.Error() }
func (e stoppedError) Unwrap() []error { return []error{ErrStopped, e.reason} }

// stopped returns an ErrStopped with a reason.
func stopped(format string, args ...any) error {
	return stoppedError{fmt.Errorf(format, args...)}
}

// Status returns how attesting went last, the zero Status before the first step.
func (a *Attester) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Run steps until ctx ends, once in each interval.
func (a *Attester) Run(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		_ = a.Step(ctx) // what hinders it is in its status and in the log
		select {
		case <-ctx.Done():
			a.mu.Lock()
			defer a.mu.Unlock()
			ctx := context.WithoutCancel(ctx)
			return errors.Join(a.yield(ctx, leaseName), a.yield(ctx, sealerLease))
		case <-tick.C:
		}
	}
}

// Step does everything that is due now. What hinders it is returned, and is the
// [Attester.Status] until another step.
func (a *Attester) Step(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	seals, err := a.has(ctx, sealerLease)
	if seals {
		err = a.seal(ctx)
	}
	if seals && err != nil {
		err = errors.Join(err, a.yield(context.WithoutCancel(ctx), sealerLease))
	}
	turn, leaseErr := a.turn(ctx)
	err = errors.Join(err, leaseErr)
	if turn {
		err = errors.Join(err, a.attest(ctx))
	}
	if ctx.Err() != nil {
		return err // whoever ends it knows
	}
	err = errors.Join(err, a.note(ctx, turn, err))
	if turn && err != nil {
		err = errors.Join(err, a.yield(ctx, leaseName)) // another process may have what this one lacks
	}
	return err
}

// turn reports whether it is for this process to attest.
func (a *Attester) turn(ctx context.Context) (bool, error) {
	if a.Key == nil {
		return false, nil
	}
	return a.has(ctx, leaseName)
}

// has takes a lease, or keeps it, and reports whether this process has it.
func (a *Attester) has(ctx context.Context, lease string) (bool, error) {
	if a.Leases == nil {
		return true, nil
	}
	if a.holder == "" {
		a.holder = uuid.NewString()
	}
	return a.Leases.TryAcquire(ctx, lease, a.holder, leaseLife)
}

// yield lets other processes have a lease.
func (a *Attester) yield(ctx context.Context, lease string) error {
	if a.Leases == nil || a.holder == "" {
		return nil
	}
	return a.Leases.Release(ctx, lease, a.holder)
}

// note takes down how a step went: for everybody if it was the one that attests, and
// otherwise here alone. Only news are logged.
func (a *Attester) note(ctx context.Context, turn bool, err error) error {
	s := Status{State: Well, Since: a.Now()}
	switch {
	case errors.Is(err, ErrStopped):
		s.State, s.Detail = Stopped, domain.Sentence(err)
	case err != nil:
		s.State, s.Detail = Unreachable, domain.Sentence(err)
	case !turn && a.Key != nil:
		s.State = Idle
	}
	was := a.status
	if s.State == was.State {
		s.Since = was.Since
	}
	a.status = s
	switch failing := was.State == Unreachable || was.State == Stopped; {
	case err != nil && (s.State != was.State || s.Detail != was.Detail):
		a.Log.ErrorContext(ctx, "batches are not attested", "state", s.State, "reason", s.Detail)
	case err == nil && failing:
		a.Log.InfoContext(ctx, "batches are attested again")
	}
	if !turn {
		return nil
	}
	return a.Transactions.Note(ctx, s)
}

// seal settles the batches that are due.
func (a *Attester) seal(ctx context.Context) error {
	for {
		if err := a.Reads.CatchUp(ctx); err != nil {
			return err
		}
		size, root, err := a.Reads.LogHead(ctx)
		if errors.Is(err, domain.ErrNotFound) {
			return nil // no checkpoint covers anything yet
		}
		if err != nil {
			return err
		}
		// What is open is read behind the last batch: a commit that another process puts
		// into a batch meanwhile must not get into a second one.
		_, last, err := a.Reads.BatchNumbers(ctx)
		if err != nil {
			return err
		}
		before, err := a.state(ctx, last)
		if err != nil {
			return err
		}
		open, err := a.Reads.OpenCommits(ctx, size, a.Policy.Size)
		if err != nil {
			return err
		}
		n := batch.Members(a.Policy, open, a.Now())
		if n == 0 {
			return nil
		}
		sealed, _, err := batch.Close(before, a.Chain.Chain(), batch.Word(eas.SchemaUID(a.Resolver)), open[:n], size, root)
		if err == nil {
			err = a.record(ctx, sealed.Batch, batch.Seal{Sealed: sealed, Before: before})
		}
		switch {
		case errors.Is(err, domain.ErrConflict):
			return nil // another process was first
		case err != nil:
			return err
		}
		a.Log.InfoContext(ctx, "a batch is sealed", "batch", sealed.Batch, "commits", sealed.Count)
	}
}

// attest carries on every batch that is not final.
func (a *Attester) attest(ctx context.Context) error {
	if err := a.Reads.CatchUp(ctx); err != nil {
		return err
	}
	n, last, err := a.Reads.BatchNumbers(ctx)
	switch {
	case err != nil:
		return err
	case n == 0 && !a.examined: // what is missing is told before it is needed
		_, err := a.Examine(ctx)
		a.examined = err == nil
		return err
	case n == 0:
		return nil
	}
	for ; n <= last; n++ {
		if err := a.carryOn(ctx, n); err != nil {
			return fmt.Errorf("batch %d: %w", n, err)
		}
	}
	return nil
}

// state returns where a batch stands, nil for batch 0, which stands for none.
func (a *Attester) state(ctx context.Context, n uint64) (*batch.State, error) {
	if n == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	s, err := a.Ledger.BatchState(ctx, n)
	return &s, err
}

// on puts questions to one node, see [rpc.Client.On]. Nodes of another chain stop
// everything.
func (a *Attester) on(ctx context.Context, do func(ctx context.Context, n *node.Client, head node.Block) error, final ...error) error {
	err := a.Chain.On(ctx, do, final...)
	if errors.Is(err, rpc.ErrWrongChain) {
		return stopped("%s; set MYSTERY_RPC_%d to nodes of that chain", domain.Sentence(err), a.Chain.Chain())
	}
	return err
}

// record carries out a command. Each has an id of its own: a batch may be dropped, and
// attested in the very same block, more than once.
func (a *Attester) record(ctx context.Context, n uint64, c batch.Command) error {
	id, err := uuid.NewRandomFromReader(a.Rand)
	if err != nil {
		return fmt.Errorf("draw a command id: %w", err)
	}
	return a.Ledger.Batch(ctx, ledger.Meta{Actor: "attester", Command: id.String()}, n, c)
}
