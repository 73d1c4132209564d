package api_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/api/client/producers"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
	"github.com/karatum/mystery/domain/replay"
	"github.com/karatum/mystery/domain/session"
	"github.com/karatum/mystery/domain/shield"
	"github.com/karatum/mystery/migrations/pgtest"
)

// Two producers write all that they have at once, over connections that lose answers,
// send much of it twice, and some of it before its time. Each event is on record once,
// and each stream in order; the whole ledger is read again at the end, with every
// signature in it.
func TestProducersHammer(t *testing.T) {
	t.Parallel()
	each := 10_000
	if raceDetector || testing.Short() {
		each = 1_000
	}
	log, handler := hammered(t)
	streams := make(map[ledger.Stream][]producer.CloudEvent)
	owners := make(map[ledger.Stream]producertest.Producer)
	const perCase, perSession = 25, 100
	for i := range each / perCase {
		id := fmt.Sprint("sc_", i)
		s := shield.StreamOf(id)
		owners[s] = runner
		streams[s] = append(streams[s], signEvent(t, runner, s, "opened", openedCase(id)))
		for n := range perCase - 1 {
			streams[s] = append(streams[s], signEvent(t, runner, s, fmt.Sprint(n), resisted(id, n)))
		}
	}
	for i := range each / perSession {
		id := fmt.Sprint("ses_", i)
		s := session.StreamOf(id)
		owners[s] = recorder
		streams[s] = append(streams[s], signEvent(t, recorder, s, "opened", openedSession(id)))
		for n := range perSession - 1 {
			streams[s] = append(streams[s], signEvent(t, recorder, s, fmt.Sprint(n), acted(id, n)))
		}
	}
	began := time.Now()
	work := make(chan ledger.Stream)
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			lossy := &losing{next: direct{handler}, every: 7}
			for s := range work {
				c := &producers.Client{
					URL: "https://karatum.com", Signer: owners[s].Signer(), Now: time.Now, HTTP: &http.Client{Transport: lossy}, Pause: time.Millisecond,
				}
				if err := deliver(t.Context(), c, random, streams[s]); err != nil {
					t.Errorf("%s: %v", s, err)
				}
			}
		})
	}
	for s := range streams {
		work <- s
	}
	close(work)
	wg.Wait()
	t.Logf("%d events in %s", 2*each, time.Since(began))

	check := replay.New(commands.Catalog())
	next := make(map[ledger.Stream]int)
	for r, err := range log.After(t.Context(), 0) {
		if err == nil {
			err = check.Add(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		events, ok := streams[r.Stream]
		if !ok {
			continue
		}
		_, signed, err := producer.Split(r.Data)
		if at := next[r.Stream]; err != nil || at >= len(events) || signed.ID != events[at].ID {
			t.Fatalf("version %d of %s is event %q (%v)", r.Version, r.Stream, signed.ID, err)
		}
		next[r.Stream]++
	}
	if err := check.End(); err != nil {
		t.Fatal(err)
	}
	for s, events := range streams {
		if next[s] != len(events) {
			t.Errorf("%s has %d events on record, want %d", s, next[s], len(events))
		}
	}
}

// deliver sends events in requests of 20 to 25, some twice and some too early.
func deliver(ctx context.Context, c *producers.Client, random *rand.Rand, events []producer.CloudEvent) error {
	for from := 0; from < len(events); {
		to := min(from+20+random.IntN(6), len(events))
		if ahead := min(to+20, len(events)); ahead > to && random.IntN(4) == 0 {
			_, err := c.Send(ctx, events[to:ahead]...)
			if r, ok := errors.AsType[*producers.Refusal](err); !ok || r.Status != http.StatusConflict && r.Status != http.StatusUnprocessableEntity {
				return fmt.Errorf("events before their time: %w", err)
			}
		}
		if from > 0 && random.IntN(4) == 0 {
			if _, err := c.Send(ctx, events[max(0, from-20):to]...); err != nil { // some of it again
				return err
			}
		}
		if _, err := c.Send(ctx, events[from:to]...); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// hammered returns the interface on a ledger in PostgreSQL, with two producers.
func hammered(t *testing.T) (ledger.Log, http.Handler) {
	t.Helper()
	pool := pgtest.Open(t)
	own, err := pgxpool.NewWithConfig(t.Context(), pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	log := postgres.New(pool, postgres.Options{})
	t.Cleanup(log.Close)
	service := &commands.Service{
		Log: log, Catalog: commands.Catalog(), Now: time.Now, Histories: commands.NewHistories(),
		Admission: &tables.Admission{Pool: own}, ConsentHosts: nowhere{},
	}
	for p, category := range map[*producertest.Producer]string{&runner: "shield-case", &recorder: "session"} {
		c := p.Registered(category)
		c.Key.NotAfter = time.Now().AddDate(1, 0, 0).UTC().Truncate(time.Second)
		if err := service.Producer(t.Context(), ledger.Meta{Actor: "test", Command: p.Name}, p.Name, producer.Register(c)); err != nil {
			t.Fatal(err)
		}
	}
	return log, api.New(api.Config{Service: service, Producers: service, PublicURL: "https://karatum.com", Now: time.Now})
}

// nowhere has no hosts of consents.
type nowhere struct{}

func (nowhere) IsConsentHost(context.Context, string) (bool, error) { return false, nil }
