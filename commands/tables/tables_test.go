package tables_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/migrations/pgtest"
)

func nothing(context.Context) error { return nil }

// taskOf returns a task under a consent.
func taskOf(consent string) programme.Task {
	return programme.Task{Consent: consent, Host: "agent.example:443", Template: "unit.convert", Identity: 3}
}

// open returns a gate with one open consent, "cns_a".
func open(t *testing.T) (*tables.Gate, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.Open(t)
	g := &tables.Gate{Pool: pool}
	if err := g.Open(t.Context(), "cns_a"); err != nil {
		t.Fatal(err)
	}
	return g, pool
}

func TestGate(t *testing.T) {
	t.Parallel()
	g, _ := open(t)
	hold := func(consent string) error {
		release, err := g.Hold(t.Context(), taskOf(consent))
		if err == nil {
			release()
			release() // once more is harmless
		}
		return err
	}
	if err := hold("cns_unknown"); !errors.Is(err, domain.ErrForbidden) {
		t.Errorf("Hold of an unknown consent: %v, want ErrForbidden", err)
	}
	if err := hold("cns_a"); err != nil {
		t.Errorf("Hold: %v", err)
	}
	if err := g.Open(t.Context(), "cns_a"); err != nil {
		t.Errorf("Open again: %v", err)
	}

	if err := g.Pause(t.Context(), programme.Everything, nothing); err != nil {
		t.Errorf("Pause: %v", err)
	}
	if err := hold("cns_a"); !errors.Is(err, domain.ErrForbidden) {
		t.Errorf("Hold while paused: %v, want ErrForbidden", err)
	}
	failure := errors.New("not appended")
	if err := g.Resume(t.Context(), programme.Everything, func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("Resume: %v, want the error of then", err)
	}
	if err := hold("cns_a"); !errors.Is(err, domain.ErrForbidden) {
		t.Errorf("Hold after a failed Resume: %v, want ErrForbidden", err)
	}
	if err := g.Resume(t.Context(), programme.Everything, nothing); err != nil {
		t.Errorf("Resume: %v", err)
	}
	if err := hold("cns_a"); err != nil {
		t.Errorf("Hold after Resume: %v", err)
	}

	if err := g.Close(t.Context(), "cns_unknown", nothing); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Close of an unknown consent: %v, want ErrNotFound", err)
	}
	if err := g.Close(t.Context(), "cns_a", func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("Close: %v, want the error of then", err)
	}
	if err := hold("cns_a"); !errors.Is(err, domain.ErrForbidden) {
		t.Errorf("Hold after Close: %v, want ErrForbidden", err)
	}
	appended := false
	err := g.Close(t.Context(), "cns_a", func(context.Context) error {
		appended = true
		return nil
	})
	if err != nil || !appended {
		t.Errorf("Close again: %v, then was called: %t", err, appended)
	}
	if err := g.Open(t.Context(), "cns_a"); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("Open after Close: %v, want ErrConflict", err)
	}
}

func TestCloseWaitsForHolders(t *testing.T) {
	t.Parallel()
	g, _ := open(t)
	first, err := g.Hold(t.Context(), taskOf("cns_a"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := g.Hold(t.Context(), taskOf("cns_a")) // senders do not hinder each other
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- g.Close(t.Context(), "cns_a", nothing) }()
	first()
	select {
	case err := <-closed:
		t.Fatalf("Close returned %v while the gate was held", err)
	case <-time.After(100 * time.Millisecond):
	}
	second()
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestCloseLosesPatience(t *testing.T) {
	t.Parallel()
	g, _ := open(t)
	g.Patience = 100 * time.Millisecond
	release, err := g.Hold(t.Context(), taskOf("cns_a"))
	if err != nil {
		t.Fatal(err)
	}
	then := func(context.Context) error {
		t.Error("then was called though the gate is held")
		return nil
	}
	if err := g.Close(t.Context(), "cns_a", then); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Close: %v, want ErrUnavailable", err)
	}
	if err := g.Pause(t.Context(), programme.Everything, then); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Pause: %v, want ErrUnavailable", err)
	}
	release()
	for { // once the notice has lapsed
		release, err = g.Hold(t.Context(), taskOf("cns_a"))
		if err == nil {
			release()
			break
		}
		if !errors.Is(err, domain.ErrUnavailable) {
			t.Fatalf("Hold after a Close in vain: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Share locks alone would let ever new senders overtake the one who waits.
func TestPauseIsNotStarved(t *testing.T) {
	t.Parallel()
	g, _ := open(t)
	stop := make(chan struct{})
	var senders sync.WaitGroup
	for i := range 3 {
		senders.Go(func() {
			time.Sleep(time.Duration(i) * 20 * time.Millisecond) // their holds overlap
			for {
				select {
				case <-stop:
					return
				default:
				}
				if release, err := g.Hold(t.Context(), taskOf("cns_a")); err == nil {
					time.Sleep(60 * time.Millisecond)
					release()
				}
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	if err := g.Pause(t.Context(), programme.Everything, nothing); err != nil {
		t.Errorf("Pause amid senders: %v", err)
	}
	close(stop)
	senders.Wait()
}

// The promise: after Close has returned no holder remains, and none enters.
func TestNothingIsSentAfterClose(t *testing.T) {
	t.Parallel()
	g, pool := open(t)
	other := &tables.Gate{Pool: pool}
	var closed atomic.Bool
	var senders sync.WaitGroup
	var sent atomic.Int64
	for i := range 3 {
		gate := []*tables.Gate{g, other}[i%2]
		senders.Go(func() {
			for {
				release, err := gate.Hold(t.Context(), taskOf("cns_a"))
				switch {
				case errors.Is(err, domain.ErrForbidden):
					return
				case errors.Is(err, domain.ErrUnavailable): // being closed
					continue
				case err != nil:
					t.Error(err)
					return
				}
				if closed.Load() {
					t.Error("the gate is held after Close has returned")
				}
				sent.Add(1)
				release()
			}
		})
	}
	for sent.Load() < 20 {
		time.Sleep(time.Millisecond)
	}
	err := g.Close(t.Context(), "cns_a", func(context.Context) error {
		closed.Store(true)
		return nil
	})
	if err != nil {
		t.Errorf("Close: %v", err)
	}
	senders.Wait()
}

func TestHoldEndsWithItsContext(t *testing.T) {
	t.Parallel()
	g, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	release, err := g.Hold(ctx, taskOf("cns_a"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	release()
	if err := g.Close(t.Context(), "cns_a", nothing); err != nil {
		t.Errorf("Close after a release with a dead context: %v", err)
	}
	if _, err := g.Hold(ctx, taskOf("cns_a")); !errors.Is(err, context.Canceled) {
		t.Errorf("Hold with a dead context: %v, want context.Canceled", err)
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	b := &tables.Bodies{Pool: pgtest.Open(t)}
	for _, tt := range []struct {
		key        string
		salt, body []byte
	}{
		{"salted", []byte{1, 2}, []byte("reply\x00\xff")},
		{"unsalted", nil, []byte("card")},
		{"empty", []byte{3}, nil},
	} {
		if err := b.Put(t.Context(), tt.key, tt.salt, tt.body); err != nil {
			t.Fatal(err)
		}
		if err := b.Put(t.Context(), tt.key, []byte("other"), []byte("other")); err != nil {
			t.Errorf("Put again: %v", err)
		}
		salt, body, err := b.Get(t.Context(), tt.key)
		if err != nil || !bytes.Equal(salt, tt.salt) || (salt == nil) != (tt.salt == nil) || !bytes.Equal(body, tt.body) {
			t.Errorf("Get(%s) = %q, %q, %v; want the first that was put, %q, %q", tt.key, salt, body, err, tt.salt, tt.body)
		}
		for range 2 {
			if err := b.Delete(t.Context(), tt.key); err != nil {
				t.Errorf("Delete: %v", err)
			}
		}
		if _, _, err := b.Get(t.Context(), tt.key); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("Get after Delete: %v, want ErrNotFound", err)
		}
	}
}

func TestEachBody(t *testing.T) {
	t.Parallel()
	b := &tables.Bodies{Pool: pgtest.Open(t)}
	for _, key := range []string{"reply/b", "reply/a", "replies", "session/a", "reply%"} {
		if err := b.Put(t.Context(), key, []byte{1}, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	stop := errors.New("enough")
	each := func(limit int) error {
		return b.Each(t.Context(), "reply/", func(key string, salt, body []byte) error {
			if !bytes.Equal(salt, []byte{1}) || string(body) != key {
				t.Errorf("the body of %s is %q with salt %q", key, body, salt)
			}
			if got = append(got, key); len(got) == limit {
				return stop
			}
			return nil
		})
	}
	if err := each(9); err != nil || !slices.Equal(got, []string{"reply/a", "reply/b"}) {
		t.Errorf("Each visits %q, %v", got, err)
	}
	if got = nil; !errors.Is(each(1), stop) || len(got) != 1 {
		t.Errorf("Each visits %q after it was told to stop", got)
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	l := &tables.Leases{Pool: pgtest.Open(t)}
	try := func(name, holder string, ttl time.Duration, want bool) {
		t.Helper()
		if got, err := l.TryAcquire(t.Context(), name, holder, ttl); err != nil || got != want {
			t.Errorf("TryAcquire(%s, %s) = %t, %v, want %t", name, holder, got, err, want)
		}
	}
	try("plan", "one", time.Minute, true)
	try("plan", "two", time.Minute, false)
	try("send", "two", time.Minute, true)
	try("plan", "one", time.Millisecond, true) // renewed, to run out soon
	time.Sleep(20 * time.Millisecond)
	try("plan", "two", time.Minute, true)
	try("plan", "one", time.Minute, false)
	for _, holder := range []string{"one", "two"} {
		if err := l.Release(t.Context(), "plan", holder); err != nil {
			t.Error(err)
		}
		try("plan", "three", time.Minute, holder == "two")
	}

	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			got, err := l.TryAcquire(t.Context(), "race", string(rune('a'+i)), time.Minute)
			if err != nil {
				t.Error(err)
			}
			if got {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d won the lease, want 1", won.Load())
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	gone := pool.Config()
	gone.ConnConfig.Host = "/nonexistent"
	gone.ConnConfig.Fallbacks = nil
	away, err := pgxpool.NewWithConfig(t.Context(), gone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(away.Close)
	g, b, l := &tables.Gate{Pool: away}, &tables.Bodies{Pool: away}, &tables.Leases{Pool: away}
	_, holdErr := g.Hold(t.Context(), taskOf("cns_a"))
	_, _, getErr := b.Get(t.Context(), "k")
	_, leaseErr := l.TryAcquire(t.Context(), "n", "h", time.Minute)
	for name, err := range map[string]error{
		"Hold": holdErr, "Open": g.Open(t.Context(), "cns_a"), "Close": g.Close(t.Context(), "cns_a", nothing),
		"Pause": g.Pause(t.Context(), programme.Everything, nothing), "Resume": g.Resume(t.Context(), programme.Everything, nothing),
		"Put": b.Put(t.Context(), "k", nil, nil), "Get": getErr, "Delete": b.Delete(t.Context(), "k"),
		"TryAcquire": leaseErr, "Release": l.Release(t.Context(), "n", "h"),
	} {
		if !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("%s without a database: %v, want ErrUnavailable", name, err)
		}
	}
}
