// Package keysocket lets a process that holds no operator secret ask one that does for
// the operator's part in a new consent, so that whatever gets hold of the process that
// strangers talk to cannot foresee a task.
//
// It is HTTP/1.1 on a Unix socket with one question. POST /v1/plan-key-root takes
//
//	{"nonce":"<64 hex digits>","firstDay":20600,"days":90}
//
// and answers with the public name of the secret and the root over the keys of those
// days (package plan):
//
//	{"operatorKey":"<64 hex digits>","planKeyRoot":"<64 hex digits>"}
//
// A root is made of hashes of keys, so no number of questions leads to a key, not even
// for a nonce that the asker chooses. Who may ask is for the file system and, where the
// kernel tells who is at the other end (Linux), for the user id of the asker. Nothing is
// written, and neither side ever sends a secret.
package keysocket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
)

const (
	rootPath = "/v1/plan-key-root"
	alive    = "/alive"

	maxMessage = 1 << 10         // far more than a question or an answer has
	maxPath    = 90              // of 104 to 108 that systems take, less what is added while it is made
	patience   = 3 * time.Second // with the other side, for all of one exchange
	watchEvery = time.Second     // a socket whose process is gone is replaced after so long
)

type question struct {
	Nonce    domain.Hash `json:"nonce"`
	FirstDay uint32      `json:"firstDay"`
	Days     uint32      `json:"days"`
}

type answer struct {
	OperatorKey domain.Hash `json:"operatorKey"`
	PlanKeyRoot domain.Hash `json:"planKeyRoot"`
}

// A Client asks at a socket. It implements [commands.KeyRoots]; its methods may be called
// from several goroutines.
type Client struct {
	Path string

	// Log is told why nobody answered, which callers are not. It is required.
	Log *slog.Logger
}

var _ commands.KeyRoots = (*Client)(nil)

// KeyRoot implements [commands.KeyRoots]. Without an answer the error matches
// [domain.ErrUnavailable] and has the code [domain.KeysUnavailable].
func (c *Client) KeyRoot(ctx context.Context, nonce domain.Hash, firstDay, days uint32) (commands.KeyRoot, error) {
	a, err := c.ask(ctx, question{nonce, firstDay, days})
	if err == nil {
		return commands.KeyRoot(a), nil
	}
	if ctx.Err() != nil {
		return commands.KeyRoot{}, err
	}
	c.Log.WarnContext(ctx, "the process that holds the operator secrets does not answer; no new consent can be prepared", "socket", c.Path, "err", err)
	return commands.KeyRoot{}, domain.WithCode(domain.KeysUnavailable,
		fmt.Errorf("what prepares new consents does not answer at the moment; try again in a few seconds: %w", domain.ErrUnavailable))
}

func (c *Client) ask(ctx context.Context, q question) (a answer, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := exchange(ctx, c.Path, http.MethodPost, rootPath, body)
	if err != nil {
		return a, err
	}
	if err := domain.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if a.OperatorKey.IsZero() || a.PlanKeyRoot.IsZero() {
		return a, errors.New("the answer names no key or no root")
	}
	return a, nil
}

// exchange asks whoever listens at a socket, on a connection of its own: the one that
// answered before may be gone.
func exchange(ctx context.Context, socket, method, path string, body []byte) ([]byte, error) {
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		MaxResponseHeaderBytes: 4 << 10,
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://keys"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxMessage))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s: %.200s", res.Status, bytes.TrimSpace(text))
	}
	return text, nil
}

// A Server answers at a socket. All fields but Others are required.
type Server struct {
	Path  string // of the socket, in a folder that nobody else may write to
	Roots commands.KeyRoots
	Log   *slog.Logger

	// Others are the ids of users who may ask, besides the one that this process runs
	// as and root. Without any the socket has the mode 0600, and else 0660: its group
	// has to let them in.
	Others []int
}

// Run answers until ctx ends. Several processes may run at one path: one answers, and
// another one does a second after that is gone or has stopped answering. An error is one
// of the first attempt to listen, such as a folder that is not there.
func (s *Server) Run(ctx context.Context) error {
	if len(s.Path) > maxPath {
		return fmt.Errorf("the path of the socket, %s, is longer than %d characters; choose a shorter one: %w", s.Path, maxPath, domain.ErrInvalid)
	}
	var open *http.Server
	end := func() {
		if open != nil {
			_ = open.Close() // whoever is cut off asks the next one
			open = nil
		}
	}
	defer end()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		if !answers(ctx, s.Path) && ctx.Err() == nil {
			end() // ours, if there was one, is not the one at the path any more
			l, err := s.listen(ctx)
			if err != nil && first {
				return fmt.Errorf("listen for those who ask for plan key roots at %s: %w", s.Path, err)
			}
			if err != nil {
				s.Log.ErrorContext(ctx, "the socket for plan key roots cannot be made", "socket", s.Path, "err", err)
			} else {
				open = s.serve(ctx, l)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// answers reports whether a process answers at a socket. One that is stopped, or hangs,
// does not.
func answers(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := exchange(ctx, path, http.MethodGet, alive, nil)
	return err == nil
}

// listen puts a socket at the path, in place of any that is there. It gets its mode
// before it gets its name.
func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	draft := fmt.Sprintf("%s.%d", s.Path, os.Getpid())
	if err := os.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", draft)
	if err != nil {
		return nil, err
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		panic(fmt.Sprintf("keysocket: a Unix socket is a %T", l))
	}
	u.SetUnlinkOnClose(false) // another process may have put its own there
	mode := os.FileMode(0o600)
	if len(s.Others) > 0 {
		mode = 0o660
	}
	err = os.Chmod(draft, mode)
	if err == nil {
		err = os.Rename(draft, s.Path)
	}
	if err != nil {
		return nil, errors.Join(err, u.Close(), os.Remove(draft))
	}
	return &guarded{UnixListener: u, allowed: append([]int{0, os.Geteuid()}, s.Others...), log: s.Log}, nil
}

// serve answers on l until what it returns is closed.
func (s *Server) serve(ctx context.Context, l net.Listener) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+alive, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST "+rootPath, s.root)
	server := &http.Server{
		Handler: mux, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience, MaxHeaderBytes: 4 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	go func() { _ = server.Serve(l) }() // ends with Close; that nobody answers any more is noticed otherwise
	s.Log.InfoContext(ctx, "answering for plan key roots", "socket", s.Path)
	return server
}

func (s *Server) root(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	var q question
	if err == nil {
		err = domain.Unmarshal(text, &q)
	}
	if err != nil || q.Nonce.IsZero() || q.Days < consent.MinValidity || q.Days > consent.MaxValidity || q.FirstDay > math.MaxUint32-consent.MaxValidity {
		http.Error(w, "this is no question for the keys of a consent", http.StatusBadRequest)
		return
	}
	root, err := s.Roots.KeyRoot(r.Context(), q.Nonce, q.FirstDay, q.Days)
	if err != nil {
		http.Error(w, domain.Sentence(err), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer(root)) // the asker may be gone
}

// A guarded listener takes connections of those who may ask, and ends all others.
type guarded struct {
	*net.UnixListener

	allowed []int
	log     *slog.Logger
}

// Accept implements [net.Listener].
func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, known, err := peer(c)
		if err == nil && (!known || slices.Contains(g.allowed, uid)) {
			return c, nil
		}
		g.log.Warn("somebody who may not was at the socket for plan key roots", "uid", uid, "err", err)
		_ = c.Close()
	}
}
