package privatepg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// patience is how long Start waits for a previous server to go away.
	patience = 15 * time.Second

	// readyWithin bounds the recovery of a crashed cluster at start.
	readyWithin = 2 * time.Minute

	// maxSocketPath is the room in sockaddr_un, less the final NUL.
	maxSocketPath = 107

	lockFile = "owner.lock"

	// longestSocketFile is the longer of the two names in the socket's directory.
	longestSocketFile = "/.s.PGSQL.5432.lock"
)

// A launch is what is known on the way to a running server.
type launch struct {
	o       Options
	account *syscall.Credential // nil for our own account
	data    string
	bin     string
}

func start(ctx context.Context, o Options) (*Server, error) {
	l := &launch{o: o, data: filepath.Join(o.Dir, "data")}
	if err := l.prepareDir(); err != nil {
		return nil, err
	}
	// The lock comes before anything is started: else the test for readiness
	// could reach another process's server on the same socket.
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := l.startLocked(ctx, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

func (l *launch) startLocked(ctx context.Context, lock *os.File) (*Server, error) {
	major, err := os.ReadFile(filepath.Join(l.data, "PG_VERSION"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := l.findBin(ctx, strings.TrimSpace(string(major))); err != nil {
		return nil, err
	}
	if len(major) == 0 {
		if err := l.initdb(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	giveUp := time.NewTimer(patience)
	defer giveUp.Stop()
	for {
		s, err := l.run(ctx, lock)
		if err == nil || !isGoingAway(err) {
			return s, err
		}
		l.removeStale()
		select {
		case <-giveUp.C:
			return nil, err
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// isGoingAway reports whether a server did not start because the one before it, or
// its zombie, still holds the pid file or shared memory.
func isGoingAway(err error) bool {
	text := err.Error()
	return strings.Contains(text, "lock file") || strings.Contains(text, "shared memory block")
}

// prepareDir creates the directory and gives it to the account of the server.
func (l *launch) prepareDir() error {
	dir := l.o.Dir
	if n := len(dir) + len(longestSocketFile); n > maxSocketPath {
		return fmt.Errorf("the path is %d bytes too long for a unix socket: %w", n-maxSocketPath, ErrDirectory)
	}
	// Only what is created here gets its mode here: the umask may have left a
	// parent that the server account cannot enter.
	if err := mkdirAll(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, fs.ErrExist):
		if err := refuseForeign(dir); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	if os.Geteuid() == 0 {
		if err := l.chooseAccount(); err != nil {
			return err
		}
		if err := os.Chown(dir, int(l.account.Uid), int(l.account.Gid)); err != nil {
			return fmt.Errorf("%w: %w", ErrDirectory, err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs its x bit
		return fmt.Errorf("it must belong to the account of the server: %w: %w", ErrDirectory, err)
	}
	return nil
}

// refuseForeign refuses a directory that holds files but no lock of ours: to take
// over a home directory, mode and owner, would be a bad surprise.
func refuseForeign(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	_, err = os.Lstat(filepath.Join(dir, lockFile))
	if len(files) > 0 && err != nil {
		return fmt.Errorf("it holds other files: name an empty directory or a new one: %w", ErrDirectory)
	}
	return nil
}

// mkdirAll is os.MkdirAll with mode 0755 whatever the umask.
func mkdirAll(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := mkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // the server's account must be able to enter
		if errors.Is(err, fs.ErrExist) { // made by another process meanwhile
			return nil
		}
		return err
	}
	return os.Chmod(dir, 0o755) //nolint:gosec // as above
}

// chooseAccount finds the account that the server of a root process runs as.
func (l *launch) chooseAccount() error {
	if st := new(syscall.Stat_t); syscall.Stat(l.data, st) == nil && st.Uid != 0 {
		l.account = &syscall.Credential{Uid: st.Uid, Gid: st.Gid}
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return err
		}
		l.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return nil
	}
	return fmt.Errorf("PostgreSQL does not run as root, and there is no account postgres or nobody: %w", ErrDirectory)
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // in the directory that the caller named
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = fmt.Errorf("the directory is %w", ErrInUse)
	case err != nil:
		err = fmt.Errorf("lock %s: %w: %w", f.Name(), ErrDirectory, err)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// findBin finds the programs: the newest, or those that made the cluster.
func (l *launch) findBin(ctx context.Context, clusterMajor string) error {
	var found []string
	for _, dir := range binDirs(l.o.Bin) {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		l.bin = dir
		out, err := l.command(ctx, "postgres", "--version").Output()
		if errors.Is(err, fs.ErrPermission) {
			return l.explainPermission(err)
		}
		major, ok := parseMajor(string(out))
		if err != nil || !ok {
			continue
		}
		if clusterMajor == "" || clusterMajor == major {
			return nil
		}
		found = append(found, major)
	}
	if len(found) > 0 {
		return fmt.Errorf("the cluster was made by PostgreSQL %s and only %s is installed; install postgresql-%[1]s, or move the cluster with pg_upgrade: %[3]w",
			clusterMajor, strings.Join(found, ", "), ErrVersion)
	}
	return fmt.Errorf("install them (on Debian: apt-get install postgresql), or set MYSTERY_DATABASE_URL to a running server: %w", ErrNoBinaries)
}

// explainPermission names the directory that keeps the server's account out.
func (l *launch) explainPermission(err error) error {
	if l.account != nil {
		for _, dir := range parents(l.o.Dir) {
			st := new(syscall.Stat_t)
			if syscall.Stat(dir, st) != nil {
				break
			}
			shift := 0 // others
			switch {
			case st.Uid == l.account.Uid:
				shift = 6
			case st.Gid == l.account.Gid:
				shift = 3
			}
			if st.Mode>>shift&1 == 0 {
				return fmt.Errorf("the server's account (uid %d) cannot enter %s (mode %04o): allow it with chmod o+x, or choose another directory such as /var/lib/karatum-mystery: %w",
					l.account.Uid, dir, st.Mode&0o7777, ErrDirectory)
			}
		}
	}
	return fmt.Errorf("the server's account cannot enter it or run %s: %w: %w", l.bin, ErrDirectory, err)
}

// parents returns the directories above dir, the root first.
func parents(dir string) []string {
	up := filepath.Dir(dir)
	if up == dir {
		return nil
	}
	return append(parents(up), up)
}

func (l *launch) initdb(ctx context.Context) error {
	fresh := l.data + ".new"
	if err := os.RemoveAll(fresh); err != nil { // half made when a process was killed
		return err
	}
	// Locale C: indexes over text of another locale break when the C library
	// changes its rules for sorting.
	cmd := l.command(ctx, "initdb", "-D", fresh, "-U", "mystery", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-instructions")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return os.Rename(fresh, l.data)
}

// command returns a command that runs as the server's account and dies with the
// thread that starts it. A process group of its own keeps a Ctrl-C at the terminal
// away from it.
func (l *launch) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, name), args...) //nolint:gosec // the programs of PostgreSQL
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + l.bin + ":/usr/bin:/bin"}
	cmd.Dir = l.o.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: l.account,
		Setpgid:    true,
		Pdeathsig:  syscall.SIGINT, // a fast shutdown
	}
	return cmd
}

// run starts the server and waits until it takes connections.
func (l *launch) run(ctx context.Context, lock *os.File) (*Server, error) {
	perm := "0700"
	if l.account != nil {
		perm = "0777" // the directory keeps others out, and lets root in
	}
	args := []string{
		"-D", l.data, "-k", l.o.Dir,
		"-c", "listen_addresses=", "-c", "port=5432", "-c", "unix_socket_permissions=" + perm,
	}
	for _, setting := range l.o.Settings {
		args = append(args, "-c", setting)
	}
	s := &Server{dir: l.o.Dir, bin: l.bin, log: &tail{to: l.o.Log}, lock: lock, ended: make(chan struct{})}
	s.cmd = l.command(context.WithoutCancel(ctx), "postgres", args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.WaitDelay = time.Second // children that outlive a killed server hold its stderr

	started := make(chan error)
	go func() {
		// The signal at the death of the parent follows the thread that started
		// the server (prctl(2), PR_SET_PDEATHSIG): it must live as long.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // why it ended is in its log
			close(s.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx, l.data); err != nil {
		s.shutdown()
		return nil, err
	}
	return s, nil
}

// awaitReady waits until the server says that it is ready, and asks it.
func (s *Server) awaitReady(ctx context.Context, data string) error {
	for !s.saysReady(data) {
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended: %s", s.log)
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w: %s", ctx.Err(), s.log)
		case <-time.After(10 * time.Millisecond):
		}
	}
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return fmt.Errorf("the server takes no connections: %w: %s", err, s.log)
	}
	return conn.Close(ctx)
}

// saysReady reads the pid file as pg_ctl does (src/include/utils/pidfile.h): its
// first line is the pid, its eighth the state. Trying to connect instead would fill
// the server's log with refusals.
func (s *Server) saysReady(data string) bool {
	text, err := os.ReadFile(pidFile(data))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) >= 8 &&
		lines[0] == strconv.Itoa(s.cmd.Process.Pid) && strings.TrimSpace(lines[7]) == "ready"
}

func pidFile(data string) string { return filepath.Join(data, "postmaster.pid") }

// removeStale removes the lock files of a server that is no more. PostgreSQL does
// so itself, unless the pid now names another process of the same account, as it
// may after a restart of a container, or a zombie that nobody reaps. The pid file
// also names shared memory that guards against children which outlived their
// server, so it goes only if no process works in the data directory.
func (l *launch) removeStale() {
	if !l.deserted() {
		return
	}
	for _, file := range []string{pidFile(l.data), l.o.Dir + longestSocketFile} {
		_ = os.Remove(file) // if it stays, the next try says why
	}
}

// deserted reports whether surely no process of the server's account has the data
// directory as its working directory, as all processes of a server do.
func (l *launch) deserted() bool {
	uid := uint32(os.Geteuid()) //nolint:gosec // uids have 32 bits
	if l.account != nil {
		uid = l.account.Uid
	}
	data, err := filepath.EvalSymlinks(l.data)
	if err != nil {
		return false
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(procs) == 0 {
		return false
	}
	for _, proc := range procs {
		st := new(syscall.Stat_t)
		if syscall.Stat(proc, st) != nil || st.Uid != uid {
			continue
		}
		cwd, err := os.Readlink(proc + "/cwd")
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone, or a zombie
		case err != nil || cwd == data:
			return false
		}
	}
	return true
}

// Stop shuts the server down, waits for its end and gives the directory free.
// Open transactions are rolled back.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.shutdown()
		_ = s.lock.Close() // gives up the flock in any case
	})
}

func (s *Server) shutdown() {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, 30 * time.Second}, {syscall.SIGQUIT, 10 * time.Second}, {syscall.SIGKILL, time.Minute}} {
		_ = s.cmd.Process.Signal(step.signal) // errs once it has ended
		select {
		case <-s.ended:
			return
		case <-time.After(step.wait):
		}
	}
}
