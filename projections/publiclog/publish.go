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
	"github.com/karatum/mystery/domain/merkle"
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
	audited bool       // by this process, which knows nothing of what was before it
	broken  error      // what the audit found
	auditAt time.Time  // when it is tried again
	turn    turn
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
// the last signed one, and every leaf that is new. Before the first time it reads the
// whole log, and from then on, as it was all read before it was signed, some of the rest
// in turns. On any contradiction nothing is signed and the error matches [ErrDamaged].
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
	if err := p.audit(ctx, now); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
		h, err := lock(ctx, tx)
		if err != nil {
			return err
		}
		v, last, err := standsOn(ctx, tx, h)
		if err != nil || !p.due(last, now) { // another process may have signed meanwhile
			return err
		}
		if h.size == last.size {
			return nil // nothing is new
		}
		next := p.turn
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
		p.turn = next
		return err
	})
}

// audit reads the whole log, once, while it goes on growing: what is added meanwhile is
// new when it is signed. What is found stands until the next checkpoint would be due.
func (p *Publisher) audit(ctx context.Context, now time.Time) error {
	if p.audited || p.broken != nil && now.Before(p.auditAt) {
		return p.broken
	}
	err := pgx.BeginTxFunc(ctx, p.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		h, err := readHead(ctx, tx, "")
		if err != nil {
			return err
		}
		if _, _, err := standsOn(ctx, tx, h); err != nil {
			return err
		}
		return audit(ctx, tx, h)
	})
	p.audited, p.broken = err == nil, nil
	if errors.Is(err, ErrDamaged) {
		p.broken, p.auditAt = err, now.Truncate(p.Every).Add(p.Every)
	}
	return err
}

// standsOn returns the key of the log and what was signed last, which the head must be
// no less than.
func standsOn(ctx context.Context, tx pgx.Tx, h head) (v note.Verifier, last signed, err error) {
	if v, err = verifier(h.vkey); err != nil {
		return v, last, err
	}
	if last, err = lastSigned(ctx, tx); err != nil || last.size == 0 {
		return v, last, err
	}
	if err := openNote(v, last.note, last.size, last.root); err != nil {
		return v, last, err
	}
	switch {
	case h.size < last.size:
		return v, last, damaged("%d leaves were signed, and the tree has %d", last.size, h.size)
	case h.size == last.size && h.root != last.root:
		return v, last, damaged("the tree of %d leaves was signed with the root %s, and has %s", h.size, last.root, h.root)
	}
	return v, last, nil
}

// continues checks that the tree continues the one that was signed last and is what
// its leaves make of it.
func continues(ctx context.Context, tx pgx.Tx, v note.Verifier, h head, last signed, t *turn) error {
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
	if err := auditTiles0(ctx, tx, h.size, last.size/merkle.TileWidth, tilesOf(h.size)); err != nil {
		return err
	}
	return t.next(ctx, tx, v, h, last.size, r)
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
