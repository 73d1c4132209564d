//go:build !linux

package privatepg

import (
	"context"
	"fmt"
)

func start(context.Context, Options) (*Server, error) {
	return nil, fmt.Errorf("set MYSTERY_DATABASE_URL instead: %w", ErrUnsupported)
}

// Stop does nothing, as no server can have been started.
func (s *Server) Stop() {}
