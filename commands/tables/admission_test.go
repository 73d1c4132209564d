package tables_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/migrations/pgtest"
)

func nonceOf(producer, value string, now time.Time) commands.Nonce {
	return commands.Nonce{Producer: producer, Value: value, Now: now, Expires: now.Add(time.Minute)}
}

func TestAdmissionIsOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	a := &tables.Admission{Pool: pool}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	failure := errors.New("the events were refused")
	for _, tt := range []struct {
		name string
		n    commands.Nonce
		then error
		want error
		code domain.Code
	}{
		{"the first", nonceOf("a", "1", now), nil, nil, ""},
		{"the same", nonceOf("a", "1", now), nil, domain.ErrUnauthenticated, domain.NonceUsed},
		{"that of another producer", nonceOf("b", "1", now), nil, nil, ""},
		{"one that comes to nothing", nonceOf("a", "2", now), failure, failure, ""},
		{"that one again", nonceOf("a", "2", now), nil, domain.ErrUnauthenticated, domain.NonceUsed},
	} {
		called := false
		err := a.Admit(t.Context(), tt.n, func(context.Context) error { called = true; return tt.then })
		if !errors.Is(err, tt.want) || domain.CodeOf(err) != tt.code || called == (tt.code != "") {
			t.Errorf("Admit(%s) = %v, called %t, want %v, code %q", tt.name, err, called, tt.want, tt.code)
		}
	}
	var kept int
	if err := a.Admit(t.Context(), nonceOf("c", "3", now.Add(2*time.Minute)), nothing); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRow(t.Context(), "select count(*) from producer_nonces").Scan(&kept); err != nil || kept != 1 {
		t.Errorf("two minutes later %d nonces are kept (%v), want 1", kept, err)
	}
}

func TestAdmissionOfOneNonceManyTimes(t *testing.T) {
	t.Parallel()
	a := &tables.Admission{Pool: pgtest.Open(t)}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var calls int
	for range 6 {
		wg.Go(func() {
			err := a.Admit(t.Context(), nonceOf("a", "1", time.Now()), func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				calls++
				return nil
			})
			if err != nil && domain.CodeOf(err) != domain.NonceUsed {
				t.Errorf("Admit: %v", err)
			}
		})
	}
	wg.Wait()
	if calls != 1 {
		t.Errorf("let in %d times, want once", calls)
	}
}

// What is let in before a producer is excluded ends before, and nothing is let in while it
// is.
func TestAdmissionExclude(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	a := &tables.Admission{Pool: pool}
	var mu sync.Mutex
	var order []string
	note := func(what string) { mu.Lock(); defer mu.Unlock(); order = append(order, what) }
	inside, leave, excluded := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_ = a.Admit(t.Context(), nonceOf("a", "1", time.Now()), func(context.Context) error {
			close(inside)
			<-leave
			note("request")
			return nil
		})
	}()
	<-inside
	go func() {
		excluded <- a.Exclude(t.Context(), "a", func(context.Context) error {
			note("revoked")
			return nil
		})
	}()
	// Another producer is not held up.
	if err := a.Exclude(t.Context(), "b", nothing); err != nil {
		t.Errorf("Exclude of another: %v", err)
	}
	if err := (&tables.Admission{Pool: pool, Patience: 10 * time.Millisecond}).Exclude(t.Context(), "a", nothing); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Exclude without patience = %v, want ErrUnavailable", err)
	}
	close(leave)
	if err := <-excluded; err != nil {
		t.Fatalf("Exclude: %v", err)
	}
	if got := fmt.Sprint(order); got != "[request revoked]" {
		t.Errorf("the order is %s, want the request first", got)
	}
}

// Steps of maintainers, and the end of a maintainer, follow one another.
func TestAdmissionMaintain(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	a := &tables.Admission{Pool: pool}
	err := a.Maintain(t.Context(), func(ctx context.Context) error {
		hasty := &tables.Admission{Pool: pool, Patience: 10 * time.Millisecond}
		if err := hasty.Maintain(ctx, nothing); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("Maintain beside another = %v, want ErrUnavailable", err)
		}
		return hasty.Exclude(ctx, "a", nothing) // producers are no maintainers
	})
	if err != nil {
		t.Errorf("Maintain = %v", err)
	}
	if err := a.Maintain(t.Context(), nothing); err != nil {
		t.Errorf("Maintain after another = %v", err)
	}
}

// The one who asked may go away: what it asked for is waited for.
func TestAdmissionOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	a := &tables.Admission{Pool: pgtest.Open(t)}
	ctx, cancel := context.WithCancel(t.Context())
	err := a.Admit(ctx, nonceOf("a", "1", time.Now()), func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	})
	if err != nil {
		t.Errorf("Admit of a caller that went away = %v, want nil", err)
	}
}
