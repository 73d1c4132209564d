// Package tables keeps what lives beside the log in PostgreSQL and may change: the
// gate that sending passes through, the bodies that events commit to, leases, and
// what keeps callers and hosts from being overrun.
// The tables are made by package migrations; the pools are those of its Connect.
//
// Nothing here is a source of truth about the programme. That is the log alone.
package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/karatum/mystery/domain"
)

// unavailable gives an error of the driver its kind. The statements of this package
// are fixed, so what they meet is the state of the server.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", domain.ErrUnavailable, err)
}
