// Package assembly plugs the programme together: database, log, write side, read
// models, worker and API. karatum-mystery and karatum-demo differ in what they
// put in and not in how it is joined.
package assembly

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/privatepg"
	"github.com/karatum/mystery/projections"
)

// Options is what a program puts in. The zero value is production.
type Options struct {
	Schema string           // of the database; "" is mystery
	Now    func() time.Time // a virtual clock; nil is the database's
	Rand   io.Reader        // nil is crypto/rand
	Secret *domain.Hash     // nil reads the operator secret of the Config
	Net    agents.Net       // the zero Net is the public internet
	Log    *slog.Logger     // nil is silent

	// Settings are of the private database, as "name=value".
	Settings []string
}

// A Programme is the assembled service.
type Programme struct {
	Service *commands.Service
	Worker  *worker.Worker
	Reader  projections.Reader
	Now     func() time.Time
	Private bool // its database is its own

	config  Config
	url     string // of the database
	schema  string
	log     *slog.Logger
	pool    *pgxpool.Pool
	ledger  *postgres.Log
	runner  *projections.Runner
	bodies  *tables.Bodies
	clock   *Clock
	closers []func()
}

// Open assembles the programme on its database, which it starts and migrates as
// needed, and publishes what this build carries: terms, pool and catalogue.
func Open(ctx context.Context, c Config, o Options) (p *Programme, err error) {
	p = &Programme{config: c, schema: orElse(o.Schema, "mystery"), log: o.Log}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			p.Close()
			p = nil
		}
	}()
	signedDomain, err := c.Domain()
	if err != nil {
		return p, err
	}
	if err := p.openDatabase(ctx, o.Settings); err != nil {
		return p, err
	}
	if err := p.openClock(ctx, o.Now); err != nil {
		return p, err
	}
	secret, err := p.openSecret(o.Secret)
	if err != nil {
		return p, err
	}
	if o.Net.Now == nil {
		o.Net.Now = time.Now
	}
	random := o.Rand
	if random == nil {
		random = rand.Reader
	}
	catalog := commands.Catalog()
	p.ledger = postgres.New(p.pool, postgres.Options{Now: o.Now})
	p.closers = append(p.closers, p.ledger.Close)
	gate := &tables.Gate{Pool: p.pool}
	p.bodies = &tables.Bodies{Pool: p.pool}
	p.Reader = projections.Reader{Pool: p.pool}
	p.runner = &projections.Runner{Log: p.ledger, Catalog: catalog, Pool: p.pool, Projections: projections.All()}
	if err := p.runner.Init(ctx); err != nil {
		return p, err
	}
	p.Service = &commands.Service{
		Log: p.ledger, Catalog: catalog, Now: p.Now, Rand: &lockedReader{r: random}, Secret: secret,
		Domain: signedDomain, Hosts: hosts{o.Net}, Gate: gate,
	}
	p.Worker = &worker.Worker{
		Service: p.Service, Work: &work{p.runner, projections.Due{Pool: p.pool}}, Field: field{o.Net}, Gate: steady{gate, p.clock}, Bodies: p.bodies,
		Rand: p.Service.Rand, Now: p.Now, Sources: c.Sources, Parallel: 8, Log: p.log,
	}
	return p, p.publish(ctx)
}

func (p *Programme) openDatabase(ctx context.Context, settings []string) (err error) {
	p.url = p.config.DatabaseURL
	if p.url == "" {
		if p.url, err = p.openPrivate(ctx, settings); err != nil {
			return fmt.Errorf("the private database: %w", err)
		}
	}
	if p.pool, err = migrations.Connect(ctx, p.url, p.schema); err != nil {
		return err
	}
	p.closers = append(p.closers, p.pool.Close)
	return nil
}

// openPrivate starts the private database, or finds the one that another process
// of the programme, such as serve, has started.
func (p *Programme) openPrivate(ctx context.Context, settings []string) (url string, err error) {
	dir := filepath.Join(p.config.StateDir, "postgres")
	server, err := privatepg.Start(ctx, privatepg.Options{Dir: dir, Settings: settings})
	if errors.Is(err, privatepg.ErrInUse) {
		return privatepg.URL(dir), nil
	}
	if err != nil {
		return "", err
	}
	p.Private = true
	p.closers = append(p.closers, server.Stop)
	return server.URL(), nil
}

func (p *Programme) openClock(ctx context.Context, virtual func() time.Time) (err error) {
	if virtual != nil {
		p.Now = virtual
		return nil
	}
	if p.clock, err = NewClock(ctx, p.pool); err != nil {
		return err
	}
	p.Now = p.clock.Now
	return nil
}

func (p *Programme) openSecret(given *domain.Hash) (domain.Hash, error) {
	if given != nil {
		return *given, nil
	}
	return p.config.secret()
}

// publish puts into force what this build carries, if it is new.
func (p *Programme) publish(ctx context.Context) error {
	t := terms.Current()
	c := programme.Publish{
		Terms:     programme.TermsPublished{Version: t.Number, Hash: t.Hash()},
		Pool:      programme.PoolPublished{Version: identity.Version(), Hash: identity.Hash()},
		Catalogue: programme.CataloguePublished{Digest: task.Digest()},
	}
	command := fmt.Sprintf("publish/%d/%d/%s", c.Terms.Version, c.Pool.Version, c.Catalogue.Digest)
	if err := p.Service.Programme(ctx, ledger.Meta{Actor: "operator", Command: command}, c); err != nil {
		return fmt.Errorf("publish terms, pool and catalogue: %w", err)
	}
	return p.CatchUp(ctx)
}

// CatchUp brings the read models to the end of the log.
func (p *Programme) CatchUp(ctx context.Context) error { return p.runner.CatchUp(ctx) }

// Handler returns the API.
func (p *Programme) Handler() http.Handler {
	return api.New(api.Config{
		Service: p.Service, Reader: p.Reader, Bodies: p.bodies, PublicURL: p.config.PublicURL,
		Logger: p.log, CatchUp: p.CatchUp,
	})
}

// Follow keeps read models and clock going until ctx ends.
func (p *Programme) Follow(ctx context.Context) {
	var wg sync.WaitGroup
	if p.clock != nil {
		wg.Go(func() { p.clock.Run(ctx) })
	}
	p.runner.Run(ctx, followEvery)
	wg.Wait()
}

// followEvery is how often the read models look for what other processes wrote.
const followEvery = 500 * time.Millisecond

// Close ends everything that Open began, last things first.
func (p *Programme) Close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
	p.closers = nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// A lockedReader serves several goroutines.
type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(b)
}

// steady is a gate that lets nothing pass while the clocks move against each
// other.
type steady struct {
	*tables.Gate
	clock *Clock
}

func (s steady) Hold(ctx context.Context, consentID string) (release func(), err error) {
	if s.clock != nil && s.clock.Skewed() {
		return nil, fmt.Errorf("this machine's clock moves against the database's; nothing is sent until they agree: %w", domain.ErrForbidden)
	}
	return s.Gate.Hold(ctx, consentID)
}

// Events returns how many records the ledger holds.
func (p *Programme) Events(ctx context.Context) (n int, err error) {
	for _, err := range p.ledger.After(ctx, 0) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Drop removes the schema of the programme with everything in it. It is for
// schemas that were made to be thrown away.
func (p *Programme) Drop(ctx context.Context) error {
	return migrations.Drop(ctx, p.url, p.schema)
}
