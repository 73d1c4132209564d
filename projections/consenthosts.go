package projections

import (
	"context"
	"net"
	"net/url"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
)

// ConsentHosts is every host and port at which there is an endpoint that an owner ever
// signed a consent for.
var ConsentHosts = Projection{
	Name: "consent_hosts", Version: 1, Visibility: domain.Public,
	Tables: `create table consent_hosts (host text primary key)`,
	Apply:  applyConsentHosts,
}

var addConsentHost = &Change{Table: "consent_hosts", Key: 1, SQL: `
	insert into consent_hosts (host) select * from unnest($1::text[]) on conflict do nothing`}

func applyConsentHosts(_ context.Context, tx Tx, _ ledger.Record, e domain.Event) error {
	switch e := e.(type) {
	case consent.Granted:
		return addHosts(tx, e.Payload.Endpoints)
	case consent.Refused:
		return addHosts(tx, e.Payload.Endpoints)
	}
	return nil
}

func addHosts(tx Tx, endpoints []consent.Endpoint) error {
	for _, e := range endpoints {
		u, err := url.Parse(e.URL)
		if err != nil {
			return err
		}
		port := u.Port()
		switch {
		case port != "":
		case u.Scheme == "http":
			port = "80"
		default:
			port = "443"
		}
		if err := tx.Do(addConsentHost, net.JoinHostPort(strings.ToLower(u.Hostname()), port)); err != nil {
			return err
		}
	}
	return nil
}

// IsConsentHost reports whether an owner ever signed a consent for an endpoint at a host,
// given as host:port.
func (r Reader) IsConsentHost(ctx context.Context, host string) (known bool, err error) {
	err = r.Pool.QueryRow(ctx, `select exists (select from consent_hosts where host = $1)`, host).Scan(&known)
	return known, err
}
