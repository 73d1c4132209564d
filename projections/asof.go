package projections

import (
	"context"
	"fmt"
	"sync"

	"github.com/karatum/mystery/domain"
)

// An AsOf says which state of the public read models an answer was made from. Two that
// are equal say that nothing in them changed in between.
type AsOf struct {
	Size uint64 // how many public records are in all of them; it never shrinks

	marks string // where each of them stands; counts of public records alone would not tell a rebuild
}

// AsOf returns the state of the public read models. What is read between two calls that
// return the same belongs together, as if it had been read at once.
func (r Reader) AsOf(ctx context.Context) (a AsOf, err error) {
	err = r.Pool.QueryRow(ctx, `
		select coalesce(min(public), 0), coalesce(string_agg(concat_ws(' ', name, generation, public), ',' order by name), '')
		from checkpoints where name = any($1)`, public()).Scan(&a.Size, &a.marks)
	if err != nil {
		return a, fmt.Errorf("read how far the read models are: %w", err)
	}
	return a, nil
}

// public returns the names of the projections that [Reader] reads.
var public = sync.OnceValue(func() (names []string) {
	for _, p := range All() {
		if p.Visibility == domain.Public {
			names = append(names, p.Name)
		}
	}
	return names
})

// A Tally counts the public records of the log of a Runner, whether they are in its read
// models yet or not. Each record is read once, by whoever asks first.
type Tally struct {
	Runner *Runner

	mu       sync.Mutex
	begun    bool
	position uint64 // up to which the log was read
	count    uint64
}

// Public returns how many public records the log holds. What was appended before is
// counted, so read models whose [AsOf] is of this size hold it.
func (t *Tally) Public(ctx context.Context) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.begun {
		// Read models have counted most of it already.
		err := t.Runner.Pool.QueryRow(ctx, `select position, public from checkpoints where name = any($1) order by position desc limit 1`, public()).
			Scan(&t.position, &t.count)
		if err != nil {
			return 0, fmt.Errorf("read how far the read models are: %w", err)
		}
		t.begun = true
	}
	for r, err := range t.Runner.Log.After(ctx, t.position) {
		if err != nil {
			return 0, fmt.Errorf("read the log: %w", err)
		}
		if t.Runner.Catalog.Visibility(r.Type) == domain.Public {
			t.count++
		}
		t.position = r.Position
	}
	return t.count, nil
}
