package tables_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
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
	for name, shut := range map[string]closing{
		"revoked": func(g *tables.Gate, ctx context.Context) error { return g.Close(ctx, "cns_a", nothing) },
		"paused":  func(g *tables.Gate, ctx context.Context) error { return g.Pause(ctx, nothing) },
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
							return g.Hold(ctx, "cns_a")
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
			if name == "paused" {
				if err := g.Resume(t.Context(), nothing); err != nil {
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
