// Package privatepg runs a PostgreSQL server that belongs to this process alone,
// so that the service needs no database to be set up.
//
// The server lives in one directory, listens on a unix socket there and nowhere
// else, and ends with the process, however that ends. The programs of PostgreSQL
// (initdb and postgres) must be installed; nothing is downloaded.
//
// # Files
//
//	DIR                  mode 0700, owned by the account of the server
//	DIR/owner.lock       flock of the owning process
//	DIR/data             the cluster; appears complete or not at all
//	DIR/.s.PGSQL.5432    the socket
//
// Whoever may enter DIR is the superuser of the database: the server account and
// root. A process that runs as root gives the server to the account that owns an
// existing cluster, else to postgres, else to nobody, as PostgreSQL refuses root.
package privatepg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Kinds of failure of [Start]; each error says in a sentence what to do.
var (
	// ErrNoBinaries means that no PostgreSQL is installed.
	ErrNoBinaries = errors.New("no PostgreSQL programs found")
	// ErrInUse means that another process owns the directory.
	ErrInUse = errors.New("in use by another process")
	// ErrDirectory means that the server cannot live in the directory.
	ErrDirectory = errors.New("unusable directory for PostgreSQL")
	// ErrVersion means that another major version of PostgreSQL made the cluster.
	ErrVersion = errors.New("cluster of another PostgreSQL version")
	// ErrUnsupported means that this operating system cannot tie a server to the
	// life of its parent.
	ErrUnsupported = errors.New("a private PostgreSQL needs Linux")
)

// Options say how to run a server. Only Dir is required.
type Options struct {
	// Dir is where the server lives. It is created if it does not exist. The
	// account of the server must be able to enter each of its parents. It should
	// not be in a temporary directory, which systems clean by age.
	Dir string

	// Bin is the directory of the programs. If empty, they are looked for in
	// PATH and where distributions install them, the newest version first.
	Bin string

	// Settings are server settings beyond the defaults, as "name=value".
	Settings []string

	// Log receives the log of the server, if set.
	Log io.Writer
}

// A Server is a running PostgreSQL server. Its methods may be called from several
// goroutines.
type Server struct {
	dir  string
	bin  string
	log  *tail
	lock *os.File // keeps the flock: a collected os.File is closed, which gives it up
	cmd  *exec.Cmd

	ended chan struct{} // closed once the server has been waited for
	stop  sync.Once
}

// Start starts a server in o.Dir and makes the cluster first if there is none.
// When it returns, the server takes connections. ctx bounds the start and not the
// life of the server. If the previous server of a process that was killed is still
// going away, Start waits for it.
func Start(ctx context.Context, o Options) (*Server, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL in %q: %w", o.Dir, err)
	}
	o.Dir = dir
	s, err := start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL in %s: %w", dir, err)
	}
	return s, nil
}

// URL returns the connection string of the superuser.
func (s *Server) URL() string { return URL(s.dir) }

// URL returns the connection string of the server in dir, for other processes
// that may enter the directory. It does not say whether a server runs there.
func URL(dir string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(dir)
	return "host='" + quoted + "' port=5432 user=mystery dbname=postgres connect_timeout=5"
}

// Bin returns the directory of the programs that the server runs from.
func (s *Server) Bin() string { return s.bin }

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.ended }

// binDirs returns where the programs may be, best first.
func binDirs(override string) []string {
	if override != "" {
		return []string{override}
	}
	var dirs []string
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil { // a link in PATH has no postgres beside it
			dirs = append(dirs, filepath.Dir(p))
		}
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // errs for a bad pattern only
	slices.SortFunc(debian, func(a, b string) int { return majorOfDir(b) - majorOfDir(a) })
	dirs = append(dirs, debian...)
	return append(dirs, "/usr/pgsql/bin", "/usr/local/pgsql/bin")
}

func majorOfDir(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin))) // 0 for a name of another form
	return n
}

// parseMajor reads the major version from "postgres (PostgreSQL) 15.18 (Debian …)".
func parseMajor(version string) (string, bool) {
	fields := strings.Fields(version)
	if len(fields) < 3 {
		return "", false
	}
	end := strings.IndexFunc(fields[2], func(r rune) bool { return r < '0' || r > '9' }) // 15.18, 18beta1
	if end < 0 {
		end = len(fields[2])
	}
	return fields[2][:end], end > 0
}

// tail keeps the end of what is written to it, to be quoted in an error.
type tail struct {
	to io.Writer // may be nil

	mu   sync.Mutex
	kept []byte
}

const tailSize = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - tailSize; n > 0 {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	if t.to == nil {
		return len(p), nil
	}
	return t.to.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
