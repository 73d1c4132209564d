// Package meter counts, in the memory of one process, what is asked for too often to be
// counted in a table: reading. Its size is fixed, whoever asks.
//
// It forgets when the process ends, and processes count each for themselves. What must
// be exact beyond that is counted by [github.com/karatum/mystery/commands/tables.Limits].
package meter

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/karatum/mystery/commands"
)

const (
	// buckets is how many are counted apart for each limit. Those whose hashes meet share
	// a bucket; the hash is salted, so that nobody can aim at another.
	buckets = 1 << 14

	// parts is what a window is cut into. A request counts until the part that it was made
	// in lies a whole window back, so for a window and one part of it at most.
	parts = 6
)

// A Meter counts requests. Its methods may be called from several goroutines.
type Meter struct {
	now  func() time.Time
	seed maphash.Seed

	mu     sync.Mutex
	limits map[string]*[buckets]bucket // by the name of the quota; under mu, as all in it
}

// New returns a meter that goes by a clock.
func New(now func() time.Time) *Meter {
	return &Meter{now: now, seed: maphash.MakeSeed(), limits: make(map[string]*[buckets]bucket)}
}

// A bucket counts by parts of the window.
type bucket struct {
	last   int64             // the number of the latest part, since 1970
	counts [parts + 1]uint32 // of that part and those before it, each at its number modulo parts+1
}

// Take charges one to each quota, or none of them if one is used up. It never fails.
// Quotas of one name have one window.
func (m *Meter) Take(_ context.Context, quotas []commands.Quota) (commands.Spent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixNano()
	s := commands.Spent{OK: true, Left: make([]commands.Left, len(quotas))}
	held := make([]*bucket, len(quotas))
	for i, q := range quotas {
		held[i] = m.bucket(q)
		held[i].move(now / length(q))
		s.OK = s.OK && held[i].sum() < q.Limit
	}
	for i, q := range quotas {
		b := held[i]
		if s.OK {
			b.counts[b.last%(parts+1)]++
		}
		s.Left[i] = commands.Left{Remaining: max(q.Limit-b.sum(), 0), Reset: time.Duration(b.relief()*length(q) - now)}
		if b.sum() == 0 {
			s.Left[i].Reset = 0
		}
	}
	return s, nil
}

// length is how many nanoseconds a part of the window has.
func length(q commands.Quota) int64 { return int64(q.Window / parts) }

func (m *Meter) bucket(q commands.Quota) *bucket {
	all, ok := m.limits[q.Name]
	if !ok {
		all = new([buckets]bucket)
		m.limits[q.Name] = all
	}
	return &all[maphash.String(m.seed, q.Key)%buckets]
}

// move begins the part of a number and forgets those a window back. A clock that has
// gone back counts on in the latest part.
func (b *bucket) move(part int64) {
	for p := max(b.last+1, part-parts); p <= part; p++ {
		b.counts[p%(parts+1)] = 0
	}
	b.last = max(b.last, part)
}

func (b *bucket) sum() (n int) {
	for _, c := range b.counts {
		n += int(c)
	}
	return n
}

// relief returns the number of the part at whose beginning something is forgotten.
func (b *bucket) relief() int64 {
	for p := b.last - parts; p < b.last; p++ {
		if p >= 0 && b.counts[p%(parts+1)] > 0 {
			return p + parts + 1
		}
	}
	return b.last + parts + 1
}
