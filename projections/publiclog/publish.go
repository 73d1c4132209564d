package publiclog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
)

// A Publisher signs checkpoints of the tree and publishes them. Several may work on
// one database; those that hold the key sign the same. All fields but Witnesses and
// Quorum are required. Its methods may be called from several goroutines.
type Publisher struct {
	Pool   *pgxpool.Pool
	Signer note.Signer // the key that [Claim] made that of the log

	// Every is the cadence: one checkpoint at most is signed between two multiples of
	// it since the Unix epoch, as Now tells the time, and none if nothing is new. It
	// depends on nothing else, so it tells nothing else.
	Every time.Duration
	Now   func() time.Time

	// Witnesses are asked to cosign each checkpoint. It is published once at least
	// Quorum have, with whatever cosignatures there are by then.
	Witnesses []Witness
	Quorum    int

	mu      sync.Mutex // one call of Publish at a time
	sweep   sweep
	known   map[string]uint64 // sizes that witnesses have cosigned, by their id
	askAt   time.Time         // when witnesses are asked again, after they were too few
	askedOf uint64            // for the checkpoint of this size
}

// askAgain is how long after a refusal witnesses are asked for the same checkpoint
// again.
const askAgain = 30 * time.Second

// Publish signs a checkpoint if one is due, and publishes the last one that was
// signed if enough witnesses cosign it; otherwise it returns [domain.ErrUnavailable].
//
// Before it signs it reads back what it signs: the edge of the tree, that it continues
// the last signed one, its newest leaves, and in turns everything else. On any
// contradiction nothing is signed and the error matches [ErrDamaged].
func (p *Publisher) Publish(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.sign(ctx); err != nil {
		return fmt.Errorf("sign a checkpoint: %w", err)
	}
	if err := p.release(ctx); err != nil {
		return fmt.Errorf("publish the checkpoint: %w", err)
	}
	return nil
}

// A signed is a row of tree_checkpoints.
type signed struct {
	size uint64
	root domain.Hash
	note []byte
	at   time.Time
}

// lastSigned returns the largest signed checkpoint, the zero value if there is none.
func lastSigned(ctx context.Context, q querier) (s signed, err error) {
	var root []byte
	err = q.QueryRow(ctx, `select size, root, note, signed_at from tree_checkpoints order by size desc limit 1`).
		Scan(&s.size, &root, &s.note, &s.at)
	if errors.Is(err, pgx.ErrNoRows) {
		return signed{}, nil
	}
	if err != nil {
		return signed{}, fmt.Errorf("read the last checkpoint: %w", err)
	}
	s.root = domain.Hash(root)
	return s, nil
}

// due reports whether a checkpoint may follow last by now.
func (p *Publisher) due(last signed, now time.Time) bool {
	return last.size == 0 || period(last.at, p.Every) != period(now, p.Every)
}

func period(t time.Time, every time.Duration) int64 { return t.UnixNano() / int64(every) }

func (p *Publisher) sign(ctx context.Context) error {
	now := p.Now()
	if last, err := lastSigned(ctx, p.Pool); err != nil || !p.due(last, now) {
		return err
	}
	return pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
		h, err := lock(ctx, tx)
		if err != nil {
			return err
		}
		v, err := verifier(h.vkey)
		if err != nil {
			return err
		}
		last, err := lastSigned(ctx, tx) // another process may have signed meanwhile
		if err != nil || !p.due(last, now) {
			return err
		}
		if last.size > 0 {
			if err := openNote(v, last.note, last.size, last.root); err != nil {
				return err
			}
		}
		switch {
		case h.size < last.size:
			return damaged("%d leaves were signed, and the tree has %d", last.size, h.size)
		case h.size == last.size && last.size > 0 && h.root != last.root:
			return damaged("the tree of %d leaves was signed with the root %s, and has %s", h.size, last.root, h.root)
		case h.size == last.size:
			return nil // nothing is new
		}
		next := p.sweep
		if err := continues(ctx, tx, v, h, last, &next); err != nil {
			return err
		}
		signed, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: v.Name(), Size: h.size, Root: h.root}, p.Signer)
		if err != nil {
			return err
		}
		if err := openNote(v, signed, h.size, h.root); err != nil {
			return fmt.Errorf("this key is not the one that the log was begun with: %w: %w", err, domain.ErrForbidden)
		}
		_, err = tx.Exec(ctx, `insert into tree_checkpoints (size, root, note, signed_at) values ($1, $2, $3, $4)`,
			h.size, h.root[:], signed, now)
		p.sweep = next
		return err
	})
}

// continues checks that the tree continues the one that was signed last and is what
// its leaves make of it.
func continues(ctx context.Context, tx pgx.Tx, v note.Verifier, h head, last signed, s *sweep) error {
	if _, err := loadEdge(ctx, tx, h); err != nil {
		return err
	}
	r := hashes(ctx, tx, h.tree())
	if last.size > 0 {
		proof, err := tlog.ProveTree(int64(h.size), int64(last.size), r) //nolint:gosec // far below 2^62
		if err != nil {
			return err
		}
		was := tree(last.size, last.root)
		if err := tlog.CheckTree(proof, int64(h.size), tlog.Hash(h.root), was.N, was.Hash); err != nil { //nolint:gosec // as above
			return damaged("the tree of %d leaves does not continue the signed one of %d: %w", h.size, last.size, err)
		}
	}
	if err := readBack(ctx, tx, h, h.size-last.size); err != nil {
		return err
	}
	return s.next(ctx, tx, v, h, r)
}

// release publishes the last signed checkpoint.
func (p *Publisher) release(ctx context.Context) error {
	last, err := lastSigned(ctx, p.Pool)
	if err != nil || last.size == 0 {
		return err
	}
	var done bool
	var vkey string
	err = p.Pool.QueryRow(ctx, `select exists (select from tree_published where size >= $1), vkey from tree_head`, last.size).Scan(&done, &vkey)
	if err != nil || done || p.askedOf == last.size && p.Now().Before(p.askAt) {
		return err
	}
	v, err := verifier(vkey)
	if err != nil {
		return err
	}
	if err := openNote(v, last.note, last.size, last.root); err != nil {
		return err
	}
	policy := checkpoint.Policy{Log: v, Quorum: p.Quorum}
	for _, w := range p.Witnesses {
		policy.Witnesses = append(policy.Witnesses, w.Key)
	}
	published := append([]byte(nil), last.note...)
	lines, refusals := p.gather(ctx, v, last)
	published = append(published, strings.Join(lines, "")...)
	if _, _, err := policy.Open(published); err != nil {
		p.askedOf, p.askAt = last.size, p.Now().Add(askAgain)
		return fmt.Errorf("%s (%s): %w", domain.Sentence(err), strings.Join(refusals, "; "), domain.ErrUnavailable)
	}
	_, err = p.Pool.Exec(ctx, `insert into tree_published (size, note) values ($1, $2) on conflict (size) do nothing`, last.size, published)
	return err
}

// gather asks all witnesses at once. It returns the lines of those that cosigned, and
// what hindered the others.
func (p *Publisher) gather(ctx context.Context, v note.Verifier, s signed) (lines, refusals []string) {
	if p.known == nil {
		p.known = make(map[string]uint64)
	}
	type answer struct {
		line string
		err  error
	}
	answers := make([]answer, len(p.Witnesses))
	var wg sync.WaitGroup
	for i, w := range p.Witnesses {
		old := p.known[w.id()]
		wg.Go(func() { answers[i].line, answers[i].err = p.ask(ctx, w, v, s, old) })
	}
	wg.Wait()
	for i, a := range answers {
		w := p.Witnesses[i]
		if a.err != nil {
			delete(p.known, w.id()) // it will say what it knows
			refusals = append(refusals, fmt.Sprintf("witness %s: %s", w.Key.Name(), domain.Sentence(a.err)))
			continue
		}
		p.known[w.id()] = s.size
		lines = append(lines, a.line)
	}
	return lines, refusals
}

// ask has one witness cosign a checkpoint. old is the size that it is thought to know;
// if it knows another one, it says so, and is asked again from there.
func (p *Publisher) ask(ctx context.Context, w Witness, v note.Verifier, s signed, old uint64) (line string, err error) {
	for range 3 { // more only if somebody else asks it for this log as well
		if old > s.size {
			return "", fmt.Errorf("it has seen %d leaves of this log, and %d are signed here: %w", old, s.size, domain.ErrConflict)
		}
		proof, err := consistency(hashes(ctx, p.Pool, tree(s.size, s.root)), old, s.size)
		if err != nil {
			return "", err
		}
		lines, err := w.addCheckpoint(ctx, old, proof, s.note)
		if other := new(sizeError); errors.As(err, &other) && other.size != old {
			old = other.size
			continue
		}
		if err != nil {
			return "", err
		}
		policy := checkpoint.Policy{Log: v, Witnesses: []note.Verifier{w.Key}, Quorum: 1}
		_, good, err := policy.Open(append(append([]byte(nil), s.note...), lines...))
		if err != nil {
			return "", fmt.Errorf("its answer is not its cosignature: %w", err)
		}
		return good[0], nil
	}
	return "", fmt.Errorf("the size that it knows goes on changing: %w", domain.ErrConflict)
}
