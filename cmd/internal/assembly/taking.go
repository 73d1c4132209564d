package assembly

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// refusedFor is for how long a process that could not append says so: long enough to be
// asked, and no longer, as it is told of nothing new while requests pass it by.
const refusedFor = 10 * time.Second

// A watchedLog is the log of a process, which takes note of whether it takes records. A
// database may answer whatever it is asked, and have no room for anything new.
type watchedLog struct {
	ledger.Log

	refused atomic.Pointer[time.Time] // when the last append failed; nil if it did not
}

// Append implements [ledger.Log].
func (l *watchedLog) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	err := l.Log.Append(ctx, s, version, m, events...)
	switch {
	case err == nil:
		l.refused.Store(nil)
	case errors.Is(err, domain.ErrUnavailable):
		now := time.Now()
		l.refused.Store(&now)
	}
	return err
}

// takes reports whether records are taken, as far as is known.
func (l *watchedLog) takes() bool {
	at := l.refused.Load()
	return at == nil || time.Since(*at) > refusedFor
}
