package assembly

import (
	"context"
	"net"
	"net/http"

	"github.com/karatum/mystery/api/operator"
	"github.com/karatum/mystery/projections"
)

// Operator returns the handler of the interface for the operator.
func (p *Programme) Operator() http.Handler {
	return operator.New(operator.Config{ReadModels: p.runner, Vitals: p.Vitals, Counters: p.counters, Now: p.Now, Logger: p.log})
}

// OperatorListener returns the listener for it, nil if the Config names none.
func (p *Programme) OperatorListener(ctx context.Context) (net.Listener, error) {
	if p.config.OperatorAddr == "" {
		return nil, nil //nolint:nilnil // none is what was asked for
	}
	return operator.Loopback(ctx, p.config.OperatorAddr)
}

// ReadModels returns the read models of the store. They are as the last process of the
// service has left them.
func (s *Store) ReadModels() *projections.Runner { return s.runner }
