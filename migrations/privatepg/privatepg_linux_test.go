package privatepg_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/migrations/privatepg"
)

// TestMain lets the test binary play a service that owns a server and gets killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PRIVATEPG_TEST_OWN"); dir != "" {
		if _, err := privatepg.Start(context.Background(), privatepg.Options{Dir: dir}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready")
		time.Sleep(time.Minute)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// newDir returns a directory that does not exist yet and that another account can
// reach, unlike t.TempDir, whose parent has mode 0700.
func newDir(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("", "privatepg") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "made", "pg")
}

func start(t *testing.T, dir string) *privatepg.Server {
	t.Helper()
	s, err := privatepg.Start(t.Context(), privatepg.Options{Dir: dir, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// query returns the one value that the last of the statements in sql gives.
func query(t *testing.T, s *privatepg.Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return string(results[len(results)-1].Rows[0][0])
}

func TestStart(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	began := time.Now()
	s := start(t, dir)
	t.Log("cold start:", time.Since(began))
	if got := query(t, s, "create table kept (n int); insert into kept values (7); select n::text from kept"); got != "7" {
		t.Fatal(got)
	}
	if got := query(t, s, "show listen_addresses"); got != "" {
		t.Errorf("listen_addresses = %q, want none", got)
	}
	if got := query(t, s, "show fsync"); got != "on" {
		t.Errorf("fsync = %s, want on", got)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory is %v, %v, want 0700", st.Mode(), err)
	}

	_, err := privatepg.Start(t.Context(), privatepg.Options{Dir: dir})
	if !errors.Is(err, privatepg.ErrInUse) {
		t.Errorf("second owner: %v, want ErrInUse", err)
	}

	s.Stop()
	s.Stop() // stopping twice is harmless
	<-s.Done()
	began = time.Now()
	s = start(t, dir)
	t.Log("warm start:", time.Since(began))
	if got := query(t, s, "select n::text from kept"); got != "7" {
		t.Errorf("after a restart: %s, want 7", got)
	}
}

func TestStartSettings(t *testing.T) {
	t.Parallel()
	s, err := privatepg.Start(t.Context(), privatepg.Options{Dir: newDir(t), Settings: []string{"max_connections=17"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if got := query(t, s, "show max_connections"); got != "17" {
		t.Errorf("max_connections = %s, want 17", got)
	}
}

func TestStartRefused(t *testing.T) {
	t.Parallel()
	foreign := newDir(t)
	if err := os.MkdirAll(filepath.Join(foreign, "letters"), 0o755); err != nil {
		t.Fatal(err)
	}
	old := newDir(t)
	start(t, old).Stop()
	if err := os.WriteFile(filepath.Join(old, "data", "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(foreign), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		name string
		o    privatepg.Options
		want error
		text string
	}{
		{"long path", privatepg.Options{Dir: "/tmp/" + strings.Repeat("x", 100)}, privatepg.ErrDirectory, "17 bytes too long"},
		{"other files", privatepg.Options{Dir: foreign}, privatepg.ErrDirectory, "other files"},
		{"below a file", privatepg.Options{Dir: filepath.Join(file, "pg")}, privatepg.ErrDirectory, "not a directory"},
		{"a file", privatepg.Options{Dir: file}, privatepg.ErrDirectory, "not a directory"},
		{"no programs", privatepg.Options{Dir: newDir(t), Bin: "/nonexistent"}, privatepg.ErrNoBinaries, "apt-get install postgresql"},
		{"no programs, hint", privatepg.Options{Dir: newDir(t), Bin: "/nonexistent"}, privatepg.ErrNoBinaries, "MYSTERY_DATABASE_URL"},
		{"other version", privatepg.Options{Dir: old}, privatepg.ErrVersion, "made by PostgreSQL 9"},
		{"bad setting", privatepg.Options{Dir: newDir(t), Settings: []string{"no_such_setting=1"}}, nil, "no_such_setting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := privatepg.Start(t.Context(), tt.o)
			if err == nil {
				s.Stop()
				t.Fatal("started")
			}
			if tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Start: %v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

func TestStartUnreachable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only a root process runs the server as another account")
	}
	closed := filepath.Join(newDir(t), "closed")
	if err := os.MkdirAll(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := privatepg.Start(t.Context(), privatepg.Options{Dir: filepath.Join(closed, "pg")})
	if !errors.Is(err, privatepg.ErrDirectory) || !strings.Contains(err.Error(), "cannot enter "+closed) {
		t.Errorf("Start: %v, want ErrDirectory naming %s", err, closed)
	}
}

func TestStartCancelled(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := privatepg.Start(ctx, privatepg.Options{Dir: dir}); err == nil {
		t.Fatal("started with a cancelled context")
	}
	start(t, dir) // a failed start keeps nothing locked
}

// own starts a process that owns a server in dir.
func own(t *testing.T, dir string) (service *exec.Cmd, postmaster int) {
	t.Helper()
	service = exec.Command(os.Args[0])
	service.Env = append(os.Environ(), "PRIVATEPG_TEST_OWN="+dir)
	out, err := service.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = service.Process.Kill()
		_ = service.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("owner says %q, %v", line, err)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(pid), "\n")
	postmaster, err = strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return service, postmaster
}

// alive is false for a zombie, which has its pid until someone reaps it.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestKilledOwner(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	service, postmaster := own(t, dir)
	began := time.Now()
	if err := service.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = service.Wait()
	for alive(postmaster) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the server outlives its owner")
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Log("server gone after", time.Since(began))
	start(t, dir)
}

func TestKilledOwnerRestartedAtOnce(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	service, _ := own(t, dir)
	if err := service.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = service.Wait()
	start(t, dir) // waits for the old server
}

func TestKilledServerAndOwner(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	service, postmaster := own(t, dir)
	conn, err := pgx.Connect(t.Context(), "host="+dir+" user=mystery dbname=postgres")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "create table kept (n int); insert into kept values (7)"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(postmaster, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := service.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = service.Wait()
	began := time.Now()
	s := start(t, dir)
	t.Log("recovered after", time.Since(began))
	if got := query(t, s, "select n::text from kept"); got != "7" {
		t.Errorf("after the crash: %s, want 7", got)
	}
}

func TestStalePIDFile(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	start(t, dir).Stop()
	// After a restart of a container the pid may name any process of the account.
	other := exec.Command("sleep", "60")
	if data := new(syscall.Stat_t); os.Geteuid() == 0 {
		if err := syscall.Stat(filepath.Join(dir, "data"), data); err != nil {
			t.Fatal(err)
		}
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: data.Uid, Gid: data.Gid}}
		other.Dir = "/"
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	file := filepath.Join(dir, "data", "postmaster.pid")
	stale := fmt.Sprintf("%d\n%s/data\n1700000000\n5432\n%s\n\n", other.Process.Pid, dir, dir)
	if err := os.WriteFile(file, []byte(stale), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, dir)
}

func TestDone(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	s := start(t, dir)
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(pid), "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Done stays open after the server was killed")
	}
}
