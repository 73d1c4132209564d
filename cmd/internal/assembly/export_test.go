package assembly

import (
	"log/slog"
	"time"

	"github.com/karatum/mystery/commands/tables"
)

// What tests see of the files of operator secrets, and of keys that pay.
var (
	ParseSecrets = parseSecrets
	AddSecret    = addSecret
	KeysThatPay  = Config.keysThatPay
)

// Traced is what a process runs its work below.
var Traced = (*Programme).traced

// A Duty is what one process does for all.
type Duty = duty

// NewDuty returns a duty by the clock now.
func NewDuty(name string, leases *tables.Leases, now func() time.Time) *Duty {
	return &duty{name: name, leases: leases, now: now, log: slog.New(slog.DiscardHandler)}
}

// What a duty does.
var (
	Has   = (*duty).has
	Yield = (*duty).yield
)
