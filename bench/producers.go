package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/api/client/producers"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/session"
)

// Sizes of what two producers send.
const (
	producersSending = 2
	senders          = 4 // of each
	sessionsSent     = 40
	actionsSent      = 99
	eventsAtOnce     = 25
)

// producers measures how fast events of producers are taken, over network connections to
// this machine, with all of their signatures checked and all of them durable: next to
// checking as many signatures on all cores.
func (b *bench) producers(ctx context.Context) (err error) {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.drop()) }()
	own, err := pgxpool.NewWithConfig(ctx, s.pool.Config())
	if err != nil {
		return err
	}
	defer own.Close()
	log := postgres.New(s.pool, postgres.Options{})
	defer log.Close()
	service := &commands.Service{
		Log: log, Catalog: commands.Catalog(), Now: time.Now, Histories: commands.NewHistories(), Admission: &tables.Admission{Pool: own},
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String()
	server := &http.Server{
		Handler:           api.New(api.Config{Service: service, Producers: service, PublicURL: url, Now: time.Now}),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.Serve(l) }() // until it is closed
	defer server.Close()

	var clients []*producers.Client
	for i := range producersSending {
		c, err := registered(ctx, service, url, fmt.Sprint("recorder-", i))
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	round := 0
	return b.hold(ctx, doing(fmt.Sprintf("signed events taken, %d at once", eventsAtOnce),
		side{run: func(ctx context.Context) ([]figure, error) {
			round++
			return sendAll(ctx, clients, round)
		}},
		side{"Ed25519 of each", verifyAll},
	))
}

// verifyAll checks as many signatures as sendAll sends.
func verifyAll(context.Context) ([]figure, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	message := make([]byte, payload)
	signature := ed25519.Sign(private, message)
	const n = producersSending * sessionsSent * (actionsSent + 1)
	cores := runtime.GOMAXPROCS(0)
	var wrong atomic.Bool
	began := time.Now()
	var wg sync.WaitGroup
	for core := range cores {
		wg.Go(func() {
			for i := core; i < n; i += cores {
				if !ed25519.Verify(public, message, signature) {
					wrong.Store(true)
				}
			}
		})
	}
	wg.Wait()
	if wrong.Load() {
		return nil, errors.New("a right signature is refused")
	}
	return []figure{{perSecond, n / time.Since(began).Seconds()}}, nil
}

// registered registers a producer and returns its client.
func registered(ctx context.Context, s *commands.Service, url, name string) (*producers.Client, error) {
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	now := time.Now().UTC().Truncate(time.Second)
	err := s.Producer(ctx, ledger.Meta{Actor: "bench", Command: name}, name, producer.Register{
		Producer: name, Types: []domain.Type{"session.opened.v1", "session.action_recorded.v1"}, Streams: []string{"session/" + name},
		Key: producer.Key{ID: "1", Public: producer.PublicKey(private[ed25519.SeedSize:]), NotBefore: now, NotAfter: now.AddDate(1, 0, 0)},
	})
	connections := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck,forcetypeassert // as net/http says
	connections.MaxIdleConnsPerHost = senders
	return &producers.Client{
		URL: url, Signer: producer.Signer{Producer: name, Key: "1", Private: private}, Now: time.Now, HTTP: &http.Client{Transport: connections},
	}, err
}

// sendAll sends sessions of all clients at once. They are signed before.
func sendAll(ctx context.Context, clients []*producers.Client, round int) ([]figure, error) {
	type batch struct {
		client *producers.Client
		events []producer.CloudEvent
	}
	var work []batch
	for i := range sessionsSent {
		for _, c := range clients {
			events, err := sessionOf(c, fmt.Sprintf("%s-%d-%d", c.Producer, round, i))
			if err != nil {
				return nil, err
			}
			work = append(work, batch{c, events})
		}
	}
	next := make(chan batch)
	began := time.Now()
	errs := make(chan error, senders*len(clients))
	var wg sync.WaitGroup
	for range senders * len(clients) {
		wg.Go(func() {
			var failed error
			for b := range next {
				for from := 0; from < len(b.events) && failed == nil; from += eventsAtOnce {
					_, failed = b.client.Send(ctx, b.events[from:min(from+eventsAtOnce, len(b.events))]...)
				}
			}
			errs <- failed
		})
	}
	for _, b := range work {
		next <- b
	}
	close(next)
	wg.Wait()
	took := time.Since(began)
	close(errs)
	var failed []error
	for err := range errs {
		failed = append(failed, err)
	}
	return []figure{{perSecond, float64(len(clients)*sessionsSent*(actionsSent+1)) / took.Seconds()}}, errors.Join(failed...)
}

// sessionOf returns the signed events of a session.
func sessionOf(c *producers.Client, id string) (events []producer.CloudEvent, err error) {
	stream := session.StreamOf(id)
	add := func(id string, e producer.Source) {
		signed, failed := c.Sign(stream, e, id, time.Now())
		events, err = append(events, signed), errors.Join(err, failed)
	}
	add("opened", session.Opened{Session: id, Agent: agent.Ref("build:42"), Kind: session.Runtime, StartedAt: "2026-10-16T10:00:00Z"})
	for n := range actionsSent {
		add(fmt.Sprint(n), session.ActionRecorded{
			Session: id, N: int64(n), Actor: "agent", Action: "message", Decision: "none", At: "2026-10-16T10:00:00Z",
		})
	}
	return events, err
}
