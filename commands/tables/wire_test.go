package tables_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/programme"
)

// An ear accepts connections, answers nothing, and counts the bytes that arrive.
type ear struct {
	net.Listener

	heard atomic.Int64
	calls atomic.Int64 // connections
}

func listen(t *testing.T) *ear {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &ear{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.calls.Add(1)
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					e.heard.Add(int64(n))
					if err != nil {
						return
					}
					if n > 0 {
						_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
					}
				}
			}()
		}
	}()
	return e
}

// The promise as the agent sees it: from the moment that closing has returned, no
// byte of a new task arrives, however many senders are on their way to the gate.
// Pausing promises the same, and takes it back when it is resumed.
func TestNoByteLeavesAfterClosing(t *testing.T) {
	t.Parallel()
	type closing func(*tables.Gate, context.Context) error
	resumed := map[string]programme.Scope{"paused": programme.Everything, "its host paused": programme.OfHost(taskOf("cns_a").Host)}
	for name, shut := range map[string]closing{
		"revoked": func(g *tables.Gate, ctx context.Context) error { return g.Close(ctx, "cns_a", nothing) },
		"paused":  func(g *tables.Gate, ctx context.Context) error { return g.Pause(ctx, programme.Everything, nothing) },
		"its host paused": func(g *tables.Gate, ctx context.Context) error {
			return g.Pause(ctx, programme.OfHost(taskOf("cns_a").Host), nothing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, _ := open(t)
			e := listen(t)
			world := agents.Loopback(time.Now, nil)
			var wg sync.WaitGroup
			stop := make(chan struct{})
			for range 6 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						line := world.Line(t.Context(), agents.As(identity.Pool()[0]), func(ctx context.Context) (func(), error) {
							return g.Hold(ctx, taskOf("cns_a"))
						})
						_, err := line.Get(t.Context(), "http://"+e.Addr().String()+"/", http.Header{}, 1024)
						line.Close()
						if err != nil && !errors.Is(err, domain.ErrForbidden) && !errors.Is(err, domain.ErrUnavailable) {
							t.Errorf("send: %v", err)
							return
						}
					}
				})
			}
			for e.heard.Load() < 5000 {
				time.Sleep(time.Millisecond)
			}
			if err := shut(g, t.Context()); err != nil {
				t.Fatal(err)
			}
			before := e.heard.Load() - 1
			for settled := time.Now(); e.heard.Load() != before && time.Since(settled) < 2*time.Second; {
				before = e.heard.Load()
				time.Sleep(100 * time.Millisecond) // what was sent before arrives
			}
			calls := e.calls.Load()
			time.Sleep(300 * time.Millisecond)
			if more := e.heard.Load() - before; more != 0 {
				t.Errorf("%d bytes came after closing had returned", more)
			}
			if e.calls.Load() == calls {
				t.Error("nobody tried any more, which proves nothing")
			}
			if scope := resumed[name]; scope != "" {
				if err := g.Resume(t.Context(), scope, nothing); err != nil {
					t.Fatal(err)
				}
				for e.heard.Load() == before {
					time.Sleep(time.Millisecond)
				}
			}
			close(stop)
			wg.Wait()
		})
	}
}

// The same a thousand times, for consents that are revoked while others go on.
func TestNoByteLeavesAfterRevoking(t *testing.T) {
	t.Parallel()
	const rounds, atOnce, senders = 1000, 50, 3
	g, _ := open(t)
	world := agents.Loopback(time.Now, nil)
	for first := 0; first < rounds; first += atOnce {
		var revoking, sending sync.WaitGroup
		stop := make(chan struct{})
		ears := make([]*ear, atOnce)
		for i := range ears {
			consent := fmt.Sprint("cns_", first+i)
			if err := g.Open(t.Context(), consent); err != nil {
				t.Fatal(err)
			}
			e := listen(t)
			ears[i] = e
			for range senders {
				sending.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						line := world.Line(t.Context(), agents.As(identity.Pool()[0]), func(ctx context.Context) (func(), error) {
							return g.Hold(ctx, taskOf(consent))
						})
						_, err := line.Get(t.Context(), "http://"+e.Addr().String()+"/", http.Header{}, 1024)
						line.Close()
						if err != nil && !errors.Is(err, domain.ErrForbidden) && !errors.Is(err, domain.ErrUnavailable) {
							t.Errorf("send: %v", err)
							return
						}
					}
				})
			}
			revoking.Go(func() {
				for deadline := time.Now().Add(time.Minute); e.heard.Load() == 0 && time.Now().Before(deadline); {
					time.Sleep(time.Duration(1+i%7) * time.Millisecond) // in the midst of it, not before
				}
				if err := g.Close(t.Context(), consent, nothing); err != nil {
					t.Errorf("revoke: %v", err)
				}
			})
		}
		revoking.Wait()
		heard, calls := settle(ears)
		time.Sleep(100 * time.Millisecond)
		again, later := settle(ears)
		for i := range ears {
			if heard[i] == 0 || heard[i] != again[i] {
				t.Errorf("round %d: %d bytes came before revoking and %d after, want some and none", first+i, heard[i], again[i]-heard[i])
			}
		}
		if calls == later {
			t.Errorf("rounds %d to %d: nobody tried any more, which proves nothing", first, first+atOnce-1)
		}
		close(stop)
		sending.Wait()
		for _, e := range ears {
			_ = e.Close()
		}
	}
}

// settle waits until what was sent has arrived, and returns how many bytes each ear
// has heard, and how many connections there were to all.
func settle(ears []*ear) (heard []int64, calls int64) {
	for range 100 {
		before := heard
		heard, calls = nil, 0
		for _, e := range ears {
			heard = append(heard, e.heard.Load())
			calls += e.calls.Load()
		}
		if slices.Equal(before, heard) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return heard, calls
}
