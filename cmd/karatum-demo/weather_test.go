package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
)

// A fault is a way in which the world fails the programme.
type fault string

const (
	appendLost      fault = "log: append fails and is not made"
	appendPersisted fault = "log: append fails and is made"
	appendConflict  fault = "log: append meets another one"
	appendSlow      fault = "log: append takes minutes"
	logUnread       fault = "log: reading ends half way"

	databaseCut  fault = "database: connection cut before a statement"
	databaseLost fault = "database: connection cut behind a statement"
	databaseDown fault = "database: carries out nothing"

	nodeSilent  fault = "chain: node does not answer"
	nodeFails   fault = "chain: node answers with errors"
	nodeGarbage fault = "chain: node answers with garbage"
	nodeBehind  fault = "chain: head goes backwards"
	chainLost   fault = "chain: blocks are reorganised"

	agentHangs   fault = "agent: does not answer"
	agentResets  fault = "agent: resets the connection"
	agentFails   fault = "agent: answers with 5xx"
	agentGarbage fault = "agent: answers with garbage"
	agentBusy    fault = "agent: answers with 429"
	agentRests   fault = "agent: answers with Retry-After"

	clockForward fault = "clock: jumps forward"
	clockBack    fault = "clock: jumps back"
	clockDays    fault = "clock: steps over days"

	workerDies   fault = "worker: dies"
	attesterDies fault = "attester: dies"
)

// A climate says how often a fault comes, and how it strikes while it lasts.
type climate struct {
	every time.Duration // between the beginnings of two spells, more or less
	lasts time.Duration // at most
	odds  []float64     // of striking at each chance, by spell, over and over
	most  int           // strikes in one spell; 0: no limit
	scant bool          // costs real time, so there are eight spells at most
}

const day = 24 * time.Hour

// climates holds every fault that comes in spells. Where the odds are 1 it persists:
// whatever is tried again fails again, until the spell is over.
var climates = map[fault]climate{
	appendLost:      {every: 8 * day, lasts: 9 * time.Hour, odds: []float64{1, .1, .5}},
	appendPersisted: {every: 8 * day, lasts: 12 * time.Hour, odds: []float64{.5, 1, .1}},
	appendConflict:  {every: 8 * day, lasts: 9 * time.Hour, odds: []float64{.5, .2, 1}},
	appendSlow:      {every: 8 * day, lasts: 12 * time.Hour, odds: []float64{.3}},
	logUnread:       {every: 8 * day, lasts: 9 * time.Hour, odds: []float64{.3, .05, 1}},
	databaseCut:     {every: 6 * day, lasts: 12 * time.Hour, odds: []float64{.01, .1, .002}},
	databaseLost:    {every: 6 * day, lasts: 12 * time.Hour, odds: []float64{.01, .002, .1}},
	databaseDown:    {every: 6 * day, lasts: 4 * time.Hour, odds: []float64{1}},
	nodeSilent:      {every: 4 * day, lasts: 18 * time.Hour, odds: []float64{1}, most: 1, scant: true},
	nodeFails:       {every: 8 * day, lasts: 18 * time.Hour, odds: []float64{1, .3}},
	nodeGarbage:     {every: 8 * day, lasts: 18 * time.Hour, odds: []float64{.3, 1}},
	nodeBehind:      {every: 3 * day, lasts: 18 * time.Hour, odds: []float64{1, .5}},
	chainLost:       {every: 2 * day, lasts: 18 * time.Hour, odds: []float64{.5}},
	agentHangs:      {every: 4 * day, lasts: 20 * time.Hour, odds: []float64{1}, most: 2, scant: true},
	agentResets:     {every: 8 * day, lasts: 12 * time.Hour, odds: []float64{.5, 1}},
	agentFails:      {every: 8 * day, lasts: 12 * time.Hour, odds: []float64{.5, 1}},
	agentGarbage:    {every: 8 * day, lasts: 12 * time.Hour, odds: []float64{.5, 1}},
	agentBusy:       {every: 8 * day, lasts: 12 * time.Hour, odds: []float64{.5, 1}},
	agentRests:      {every: 8 * day, lasts: 12 * time.Hour, odds: []float64{.5}},
	clockForward:    {every: 4 * day, lasts: 6 * time.Hour, odds: []float64{1}, most: 1},
	clockBack:       {every: 3 * day, lasts: 6 * time.Hour, odds: []float64{1}, most: 1},
	clockDays:       {every: 16 * day, lasts: 12 * time.Hour, odds: []float64{1}, most: 1},
}

// A weather is when which faults strike, drawn from a seed. A spell of a fault is a
// stretch of programme time, so what is tried again in it may fail again.
type weather struct {
	now func() time.Time

	mu     sync.Mutex
	random map[fault]*rand.Rand
	spells map[fault][]*spell
	struck map[fault]int
	over   bool // and never comes back
}

type spell struct {
	from, to time.Time
	odds     float64
	left     int // strikes; negative: no limit
}

// forecast draws the weather of so many days.
func forecast(seed uint64, start time.Time, days int, now func() time.Time) *weather {
	w := &weather{now: now, random: make(map[fault]*rand.Rand), spells: make(map[fault][]*spell), struck: make(map[fault]int)}
	for f, c := range climates {
		key := domain.Sum([]byte(f))
		r := rand.New(rand.NewPCG(seed, uint64(key[0])<<8|uint64(key[1])))
		w.random[f] = r
		every, whole := c.every, time.Duration(days)*day
		if c.scant {
			every = max(every, whole/8)
		}
		if f == clockDays {
			every = min(every, whole)
		} else {
			every = min(every, whole/2)
		}
		for i := 0; time.Duration(i+1)*every <= whole; i++ {
			lasts := c.lasts/2 + time.Duration(r.Int64N(int64(c.lasts/2)))
			from := start.Add(time.Duration(i)*every + time.Duration(r.Int64N(int64(every-lasts))))
			left := -1
			if c.most > 0 {
				left = c.most
			}
			w.spells[f] = append(w.spells[f], &spell{from, from.Add(lasts), c.odds[i%len(c.odds)], left})
		}
	}
	return w
}

// strikes reports whether a fault strikes at this chance.
func (w *weather) strikes(f fault) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for _, s := range w.spells[f] {
		if w.over || now.Before(s.from) || !now.Before(s.to) || s.left == 0 {
			continue
		}
		if w.random[f].Float64() < s.odds {
			s.left--
			w.struck[f]++
			return true
		}
	}
	return false
}

// insist has those faults come now that have not struck yet, though it was time: the clock
// jumped over them, or others were in their way.
func (w *weather) insist(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range slices.Sorted(maps.Keys(climates)) {
		if w.struck[f] == 0 {
			w.spells[f] = append(w.spells[f], &spell{now, now.Add(9 * time.Hour), .5, 4})
			now = now.Add(4 * time.Hour)
		}
	}
}

// happened counts a fault that comes in no spells.
func (w *weather) happened(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.struck[f]++
}

// draw returns a number below n that the seed fixes for a fault.
func (w *weather) draw(f fault, n int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random[f].Int64N(n)
}

// clear ends all faults.
func (w *weather) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// report prints how often each fault has struck. Each must have, or the run shows nothing.
func (w *weather) report(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	kinds := append(slices.Collect(maps.Keys(climates)), workerDies, attesterDies)
	slices.Sort(kinds)
	for _, f := range kinds {
		t.Logf("%6d  %s", w.struck[f], f)
		if w.struck[f] == 0 {
			t.Errorf("nothing was shown of this: %s", f)
		}
	}
}

// A stormyLog is a log in the weather.
type stormyLog struct {
	ledger.Log

	*weather
	clock *clock
}

func (l *stormyLog) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	gone := func() error { return fmt.Errorf("append to %s: the log went away: %w", s, domain.ErrUnavailable) }
	switch {
	case l.strikes(appendLost):
		return gone()
	case l.strikes(appendConflict):
		return fmt.Errorf("append to %s: %w", s, ledger.ErrConflict)
	case l.strikes(appendSlow):
		l.clock.Jump(l.clock.Now().Add(time.Duration(l.draw(appendSlow, int64(3*time.Minute)))))
	}
	err := l.Log.Append(ctx, s, version, m, events...)
	if err == nil && l.strikes(appendPersisted) {
		return gone()
	}
	return err
}

func (l *stormyLog) Stream(ctx context.Context, s ledger.Stream, version uint64) iter.Seq2[ledger.Record, error] {
	return l.halfWay(l.Log.Stream(ctx, s, version))
}

func (l *stormyLog) After(ctx context.Context, position uint64) iter.Seq2[ledger.Record, error] {
	return l.halfWay(l.Log.After(ctx, position))
}

// halfWay may end a reading before or behind any record.
func (l *stormyLog) halfWay(records iter.Seq2[ledger.Record, error]) iter.Seq2[ledger.Record, error] {
	if !l.strikes(logUnread) {
		return records
	}
	left := l.draw(logUnread, 8)
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range records {
			if left--; left < 0 || err != nil {
				break
			}
			if !yield(r, nil) {
				return
			}
		}
		yield(ledger.Record{}, fmt.Errorf("read the log: it went away: %w", domain.ErrUnavailable))
	}
}

// database is what becomes of a statement in the weather.
func (w *weather) database() fate {
	switch {
	case w.strikes(databaseDown), w.strikes(databaseCut):
		return cutBefore
	case w.strikes(databaseLost):
		return cutBehind
	}
	return passes
}

// agents puts the weather before the agents' host.
func (w *weather) agents(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && w.strikes(agentHangs):
			<-r.Context().Done()
		case w.strikes(agentResets):
			reset(rw)
		case w.strikes(agentFails):
			http.Error(rw, "out of order", http.StatusInternalServerError+int(w.draw(agentFails, 5)))
		case w.strikes(agentGarbage):
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(w.garbage(agentGarbage))
		case w.strikes(agentBusy):
			http.Error(rw, "slow down", http.StatusTooManyRequests)
		case w.strikes(agentRests):
			rw.Header().Set("Retry-After", fmt.Sprint(60*(1+w.draw(agentRests, 120))))
			http.Error(rw, "come back later", http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(rw, r)
		}
	})
}

// reset ends the connection of a request as a host does that has crashed.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if c, ok := c.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}

// garbage returns bytes that nobody should send: noise, JSON that ends too early, or
// JSON of some other kind.
func (w *weather) garbage(f fault) []byte {
	switch w.draw(f, 3) {
	case 0:
		noise := make([]byte, 1+w.draw(f, 4096))
		for i := range noise {
			noise[i] = byte(w.draw(f, 256))
		}
		return noise
	case 1:
		return []byte(`{"jsonrpc":"2.0","id":1,"result":{"parts":[{"text":"12`)
	}
	return []byte(`{"jsonrpc":"2.0","id":"x","result":[null,{"result":{}},1e400,"\ud800"]}`)
}

// node puts the weather before a node of a chain. Its last finalised block is some blocks
// behind its newest, which those that are lost never reach. head returns the newest.
func (w *weather) node(next http.Handler, head func(context.Context) uint64) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // whoever asked is gone
		}
		switch {
		case w.strikes(nodeSilent):
			<-r.Context().Done()
			return
		case w.strikes(nodeFails):
			http.Error(rw, "overloaded", http.StatusServiceUnavailable)
			return
		case w.strikes(nodeGarbage):
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(w.garbage(nodeGarbage))
			return
		}
		shown := head(r.Context())
		if strings.Contains(string(body), `"latest"`) && w.strikes(nodeBehind) {
			shown -= min(shown, uint64(1+w.draw(nodeBehind, 3)))
			body = bytes.ReplaceAll(body, []byte(`"latest"`), fmt.Appendf(nil, `"0x%x"`, shown))
		}
		body = bytes.ReplaceAll(body, []byte(`"finalized"`), fmt.Appendf(nil, `"0x%x"`, shown-min(shown, chainFinality)))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(rw, r)
	})
}

// chainFinality is how far behind the head blocks are final, and maxLost how many are
// lost at once.
const (
	chainFinality = 8
	maxLost       = 3
)

// brief makes leases short. Those of a worker that was cut off are waited for in real
// time, and there is one worker only.
type brief struct{ *tables.Leases }

func (l brief) TryAcquire(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	return l.Leases.TryAcquire(ctx, name, holder, ttl/1000)
}
