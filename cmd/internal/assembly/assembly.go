// Package assembly plugs the programme together: database, log, write side, read
// models, worker and API. karatum-mystery and karatum-demo differ in what they
// put in and not in how it is joined.
package assembly

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/api/operator"
	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/rpc"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/eventlog/kurrentdb"
	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/commands/worker"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/privatepg"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// Options is what a program puts in. The zero value is production.
type Options struct {
	Schema string           // of the database; "" is mystery
	Now    func() time.Time // a virtual clock; nil is the database's
	Rand   io.Reader        // nil is crypto/rand
	Net    agents.Net       // the zero Net is the public internet
	Log    *slog.Logger     // nil is silent

	// Secrets are the operator's. Without any they are read from the file that the
	// Config names.
	Secrets commands.Keyring

	// LogKey is the private key of the public log, as package note writes it. "" reads
	// it from the file that the Config names.
	LogKey string

	// Keyless leaves the operator secrets, and the keys that attest, pay and sign the
	// public log, to other processes: plan key roots are asked for at the socket that the
	// Config names. The ledger has to be begun. Nothing is published, and the worker is of
	// no use.
	Keyless bool

	// Unlimited lets everybody ask for challenges, and read, without end. It is for
	// karatum-demo and tests, and no configuration leads here.
	Unlimited bool

	// Demo says on every page that the programme is a demonstration.
	Demo bool

	// Nodes are asked about chains in place of those that the Config names.
	Nodes rpc.Set

	// AttesterKey attests batches. Without one it is read from the file that the
	// Config names.
	AttesterKey *attester.Key

	// Settings are of the private database, as "name=value".
	Settings []string

	// Patience is how long a database that says nothing is waited for; 0 means
	// [migrations.Patience].
	Patience time.Duration

	// Version of the program, which metrics and traces name.
	Version string

	// AsIs leaves what an earlier program has made as it is: nothing is migrated, made
	// anew or published. Open then returns an error matching [domain.ErrConflict], which
	// says what to do, if this program cannot work on it before that is done. What was
	// never begun is begun all the same.
	AsIs bool

	// Join lets this process use a private database that another one owns. Without
	// it that is an error: what runs for long must not depend on another's life.
	Join bool
}

// A Programme is the assembled service.
type Programme struct {
	Service *commands.Service
	Worker  *worker.Worker
	Reader  projections.Reader
	Ledger  publiclog.Reader
	Now     func() time.Time

	// Attester rolls commits into batches and attests them; nil if that is not
	// configured.
	Attester *attester.Attester

	Private bool // its database is its own

	config  Config
	url     string // of the database
	schema  string
	log     *slog.Logger
	manners manners
	abuse   string
	demo    bool
	server  *privatepg.Server // nil unless its database is its own
	pool    *pgxpool.Pool
	ledger  ledger.Log
	taking  *watchedLog // the ledger as it is written to
	runner  *projections.Runner
	bodies  *tables.Bodies
	public  publicLog
	nodes   rpc.Set
	clock   *Clock
	asIs    bool // and there is something
	keyless bool

	local    *postgres.Log // nil if the ledger is elsewhere
	counters *operator.Counters
	tracer   *sdktrace.TracerProvider // nil: nobody asked for traces
	draining atomic.Bool
	closers  []func()
}

// Open assembles the programme on its database, which it starts and migrates as
// needed, and publishes what this build carries: terms, pool and catalogue.
func Open(ctx context.Context, c Config, o Options) (p *Programme, err error) {
	if o.Keyless {
		c = c.keyless()
	}
	p = &Programme{config: c, schema: orElse(o.Schema, "mystery"), log: o.Log, demo: o.Demo, keyless: o.Keyless}
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
	if p.manners, err = c.manners(o); err != nil {
		return p, err
	}
	if p.abuse, err = c.Abuse(); err != nil {
		return p, err
	}
	attests, attestChain, err := c.attester(o)
	if err != nil {
		return p, err
	}
	if err := p.openTraces(ctx, o); err != nil {
		return p, err
	}
	if err := p.openDatabase(ctx, o); err != nil {
		return p, err
	}
	if err := p.openClock(ctx, o.Now); err != nil {
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
	if err := p.openLog(o.Now); err != nil { //nolint:contextcheck // a log lives until Close
		return p, err
	}
	gate, err := p.openGate(ctx)
	if err != nil {
		return p, err
	}
	admission, err := p.openAdmission(ctx)
	if err != nil {
		return p, err
	}
	p.counters = operator.NewCounters(orElse(o.Version, "devel"))
	p.bodies = &tables.Bodies{Pool: p.pool}
	p.Reader = projections.Reader{Pool: p.pool}
	p.runner = &projections.Runner{Log: p.ledger, Catalog: catalog, Pool: p.pool, Projections: projections.All(), Logger: p.log}
	if err := p.initReadModels(ctx); err != nil {
		return p, err
	}
	p.taking = &watchedLog{Log: p.ledger}
	p.Service = &commands.Service{
		Log: p.taking, Catalog: catalog, Now: p.Now, Rand: &lockedReader{r: random},
		Domain: signedDomain, Hosts: p.hosts(o), Gate: gate, Texts: p.bodies, Histories: commands.NewHistories(),
		Admission: admission, ConsentHosts: p.Reader,
	}
	if err := p.openSecrets(ctx, o.Secrets); err != nil {
		return p, err
	}
	leases := &tables.Leases{Pool: p.pool}
	p.Worker = &worker.Worker{
		Service: p.Service, Work: p.work(catalog), Field: worker.OneByOne{Field: field{o.Net}, Leases: leases},
		ExamField: worker.OneByOne{Field: field{o.Net.From(p.manners.proofFrom)}, Leases: leases}, Gate: steady{gate, p.clock},
		Turns: &tables.Turns{Pool: p.pool, Most: consent.MaxPerHost, Every: consent.HostPause}, Bodies: p.bodies, CheckEvery: p.manners.checkEvery,
		Leases: leases, Rand: p.Service.Rand, Now: p.Now, Sources: c.Sources, Parallel: parallel, Async: true, Log: p.log,
		Cycled: func(err error) { p.counters.Cycle(p.Now(), err) },
	}
	if err := p.openChains(ctx, o); err != nil {
		return p, err
	}
	if err := p.openPurse(); err != nil {
		return p, err
	}
	if err := p.openPublicLog(ctx, o); err != nil {
		return p, err
	}
	p.openAttester(attests, attestChain)
	if p.keyless {
		return p, p.CatchUp(ctx)
	}
	if !p.asIs {
		if err := p.publish(ctx); err != nil {
			return p, err
		}
	}
	return p, p.reportMissing(ctx)
}

// openLog opens the event log where the Config says it is.
func (p *Programme) openLog(virtual func() time.Time) error {
	if p.config.EventLog == "" {
		p.local = postgres.New(p.pool, postgres.Options{Now: virtual})
		p.ledger, p.closers = p.local, append(p.closers, p.local.Close)
		return nil
	}
	log, err := kurrentdb.New(p.config.EventLog, kurrentdb.Options{Now: p.Now})
	if err != nil {
		return fmt.Errorf("MYSTERY_EVENTLOG: %w", err)
	}
	p.ledger, p.closers = log, append(p.closers, log.Close)
	return nil
}

// parallel is how many consents are served side by side.
const parallel = 8

// work returns the worker's own read model, which no other one can hold up.
func (p *Programme) work(catalog domain.Catalog) *work {
	return &work{
		&projections.Runner{Log: p.ledger, Catalog: catalog, Pool: p.pool, Projections: []projections.Projection{projections.DueWork}, Logger: p.log},
		projections.Due{Pool: p.pool},
	}
}

// openGate gives the gate connections of its own: a sender that holds one needs
// others to append, and must not wait for those that want to hold it too.
func (p *Programme) openGate(ctx context.Context) (*tables.Gate, error) {
	pool, err := p.ownPool(ctx, 2*parallel)
	return &tables.Gate{Pool: pool}, err
}

// admitted is how many requests of producers are let in at once.
const admitted = 8

// openAdmission is the same for requests of producers.
func (p *Programme) openAdmission(ctx context.Context) (*tables.Admission, error) {
	pool, err := p.ownPool(ctx, admitted)
	return &tables.Admission{Pool: pool}, err
}

// ownPool returns connections that nothing else uses.
func (p *Programme) ownPool(ctx context.Context, size int32) (*pgxpool.Pool, error) {
	c := p.pool.Config()
	c.MaxConns, c.MinConns = size, 0
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	p.closers = append(p.closers, pool.Close)
	return pool, nil
}

func (p *Programme) openDatabase(ctx context.Context, o Options) (err error) {
	p.url = p.config.DatabaseURL
	if p.url == "" {
		if p.url, err = p.openPrivate(ctx, o); err != nil {
			return fmt.Errorf("the private database: %w", err)
		}
	}
	if o.AsIs {
		if p.asIs, err = p.isUpToDate(ctx); err != nil {
			return err
		}
	}
	if p.pool, err = migrations.ConnectFor(ctx, p.url, p.schema, cmp.Or(o.Patience, migrations.Patience)); err != nil {
		return err
	}
	p.closers = append(p.closers, p.pool.Close)
	return nil
}

// isUpToDate reports whether there is a schema, and returns an error matching
// [domain.ErrConflict] if it is one of an earlier program.
func (p *Programme) isUpToDate(ctx context.Context) (bool, error) {
	l, err := migrations.LevelOf(ctx, p.url, p.schema)
	if err == nil && l.At > 0 && l.At < l.Known {
		err = fmt.Errorf("the database is at migration %d, and this program brings it to %d; start serve or work, which does that: %w",
			l.At, l.Known, domain.ErrConflict)
	}
	return l.At > 0, err
}

// initReadModels creates the tables of the read models, and makes those anew that are of
// an earlier program, unless everything is to be left as it is.
func (p *Programme) initReadModels(ctx context.Context) error {
	if !p.asIs {
		return p.runner.Init(ctx)
	}
	stale, err := p.runner.Stale(ctx)
	if err == nil && len(stale) > 0 {
		err = fmt.Errorf("these read models are of an earlier program: %s; start serve or work, which makes them anew: %w",
			strings.Join(stale, ", "), domain.ErrConflict)
	}
	return err
}

// openPrivate starts the private database, or finds the one that another process
// of the programme, such as serve, has started.
func (p *Programme) openPrivate(ctx context.Context, o Options) (url string, err error) {
	dir := filepath.Join(p.config.StateDir, "postgres")
	server, err := privatepg.Start(ctx, privatepg.Options{Dir: dir, Settings: o.Settings})
	if errors.Is(err, privatepg.ErrInUse) && o.Join {
		return privatepg.URL(dir), nil
	}
	if err != nil {
		return "", err
	}
	p.Private = true
	p.server = server
	p.closers = append(p.closers, server.Stop)
	return server.URL(), nil
}

func (p *Programme) openClock(ctx context.Context, virtual func() time.Time) (err error) {
	if virtual != nil {
		p.Now = virtual
		return nil
	}
	if p.clock, err = NewClock(ctx, databaseTime(p.pool)); err != nil {
		return err
	}
	p.Now = p.clock.Now
	return nil
}

// openSecrets gives the service the operator's part of all keys, or lets it ask for that.
func (p *Programme) openSecrets(ctx context.Context, given commands.Keyring) error {
	if p.Service.Secrets = given; len(given) > 0 {
		return nil
	}
	state, err := p.Service.CurrentProgramme(ctx)
	if err != nil {
		return err
	}
	if p.keyless {
		return p.askForKeys(state)
	}
	p.Service.Secrets, err = p.config.secrets(len(state.Keys) > 0)
	return err
}

// publish puts into force what this build carries, and the operator's keys, if
// they are new.
func (p *Programme) publish(ctx context.Context) error {
	t := terms.Current()
	c := programme.Publish{
		Terms:     programme.TermsPublished{Version: t.Number, Hash: t.Hash()},
		Pool:      programme.PoolPublished{Version: identity.Version(), Hash: identity.Hash()},
		Catalogue: programme.CataloguePublished{Digest: task.Digest()},
		Keys:      p.Service.Secrets.Keys(),

		IncidentSeverity: p.config.IncidentSeverity,
	}
	id, err := uuid.NewRandomFromReader(p.Service.Rand)
	if err != nil {
		return err
	}
	if err := p.Service.Programme(ctx, ledger.Meta{Actor: "operator", Command: id.String()}, c); err != nil {
		return fmt.Errorf("publish terms, pool, catalogue, operator keys and settings: %w", err)
	}
	if err := p.leaveChallengeKeys(ctx); err != nil {
		return err
	}
	return p.CatchUp(ctx)
}

// Incidents returns every incident there is, disclosed or not. It is for the operator.
func (p *Programme) Incidents(ctx context.Context) ([]projections.DueIncident, error) {
	return projections.Due{Pool: p.pool}.Incidents(ctx)
}

// CatchUp brings the read models to the end of the log.
func (p *Programme) CatchUp(ctx context.Context) error { return p.runner.CatchUp(ctx) }

// Handler returns the API.
func (p *Programme) Handler() http.Handler {
	return api.New(api.Config{
		Service: p.Service, Reader: p.Reader, Ledger: p.Ledger, Bodies: p.bodies, PublicURL: p.config.PublicURL, Now: p.Now, Facts: p.facts(),
		Producers: p.Service, Counted: p.counters.Submission,
		Limits: p.limits(), Reads: p.reads(), Proxies: p.manners.proxies, Logger: p.log, CatchUp: p.CatchUp, Attesting: p.Attesting,
		Ready: p.Ready, Watch: p.watch,
		Written: (&projections.Tally{Runner: p.runner}).Public,
	})
}

// Follow keeps read models, public log and clock going until ctx ends. It returns an error if
// the private database ends before.
func (p *Programme) Follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	if p.clock != nil {
		wg.Go(func() { p.clock.Run(ctx) })
	}
	wg.Go(func() { p.runner.Run(ctx, followEvery) })
	wg.Go(func() { p.FollowLedger(ctx) })
	defer wg.Wait()
	if p.server == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-p.server.Done():
		cancel()
		return errors.New("the private PostgreSQL has ended by itself; start the service again")
	}
}

// followEvery is how often the read models look for what other processes wrote.
const followEvery = 500 * time.Millisecond

// Close ends everything that Open began, last things first.
func (p *Programme) Close() {
	for _, end := range slices.Backward(p.closers) {
		end()
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

func (s steady) Hold(ctx context.Context, t programme.Task) (release func(), err error) {
	if s.clock != nil && s.clock.Skewed() {
		return nil, fmt.Errorf("this machine's clock moves against the database's; nothing is sent until they agree: %w", domain.ErrForbidden)
	}
	return s.Gate.Hold(ctx, t)
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
