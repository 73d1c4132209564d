package assembly

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/karatum/mystery/commands/tables"
)

// A duty is work that goes on and that one process does for all: it keeps a lease for as
// long as it looks after it. Another process takes over within a minute of the time when
// that one stopped to. It only saves work; who has lost it without knowing does no harm.
// It belongs to one goroutine.
type duty struct {
	name   string
	leases *tables.Leases
	now    func() time.Time // a clock of this machine, which also runs while the process is stopped
	log    *slog.Logger

	holder string
	mine   bool
	asked  time.Time // when the lease was last asked for
}

// How long a lease lasts, how often it is renewed, and how often others ask for it.
const (
	dutyLife  = 45 * time.Second
	dutyRenew = 10 * time.Second

	yieldTimeout = 3 * time.Second
)

// has reports whether the work is for this process to do now. While the leases cannot be
// asked for it is not.
func (d *duty) has(ctx context.Context) bool {
	now := d.now()
	if !d.asked.IsZero() && now.Sub(d.asked) < dutyRenew {
		return d.mine
	}
	if d.holder == "" {
		d.holder = uuid.NewString()
	}
	mine, err := d.leases.TryAcquire(ctx, d.name, d.holder, dutyLife)
	if err != nil {
		d.mine, d.asked = false, time.Time{} // the next look asks again
		return false
	}
	if mine != d.mine {
		d.log.InfoContext(ctx, "a duty that one process has for all changed hands", "duty", d.name, "here", mine)
	}
	d.mine, d.asked = mine, now
	return mine
}

// yield lets others take over at once: this process ends, or cannot do the work and
// another one may. It does not ask again before others have.
func (d *duty) yield(ctx context.Context) {
	if !d.mine {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), yieldTimeout)
	defer cancel()
	_ = d.leases.Release(ctx, d.name, d.holder) // or it runs out
	d.mine, d.asked = false, d.now()
}
