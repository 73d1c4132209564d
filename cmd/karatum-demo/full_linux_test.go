package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/pgtest"
)

// TestDatabaseFull takes all room from a database in the middle of a day. The service says
// so, nothing is half done, and it goes on when there is room again.
func TestDatabaseFull(t *testing.T) {
	t.Parallel()
	url, room := crampedDatabase(t)
	s := emptyOn(t, flags{seed: "83", listen: "127.0.0.1:0"}, url)
	s.register(t, edge, s.owner)
	p := s.give(t, hourly)
	s.days(t, 1.5)
	s.ready(t, true)

	room.take(t)
	failed := error(nil)
	for range 500 { // tables have some room of their own
		next, err := s.prog.Worker.Step(t.Context())
		if err != nil {
			failed = err
			break
		}
		s.clock.Jump(next)
	}
	if !errors.Is(failed, domain.ErrUnavailable) {
		t.Fatalf("with a full disk, days pass: %v", failed)
	}
	t.Logf("full: %v", failed)
	s.ready(t, false)
	for range 20 { // it is tried again, and nothing comes of it
		s.clock.Jump(s.clock.Now().Add(10 * time.Minute))
		_, _ = s.prog.Worker.Step(t.Context())
	}

	room.give(t)
	s.days(t, 9.5)
	s.ready(t, true)
	s.settled(t)
	s.history(t).check(t)
	store, err := assembly.OpenStore(t.Context(), assembly.Config{DatabaseURL: url}, assembly.Options{Schema: schemaOf(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if v, err := store.Verify(t.Context(), nil); err != nil || len(v.Findings) > 0 {
		t.Errorf("verify finds %+v, %v", v.Findings, err)
	}
	if s.sentUnder(t, p) == 0 {
		t.Error("no task was sent")
	}
}

// A room is a small disk.
type room struct{ dir string }

// take fills the disk to the last byte.
func (r room) take(t *testing.T) {
	t.Helper()
	f, err := os.Create(filepath.Join(r.dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
}

// give makes room.
func (r room) give(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(r.dir, "ballast")); err != nil {
		t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// crampedDatabase returns a database whose tables lie on a small disk of their own, which
// takes the rights to mount one, and a server on this machine.
func crampedDatabase(t *testing.T) (url string, r room) {
	t.Helper()
	if os.Getenv("MYSTERY_DATABASE_URL") != "" || os.Geteuid() != 0 {
		t.Skip("a disk can be mounted by root alone, for a server that runs here")
	}
	server := pgtest.URL(t)
	admin, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	r.dir, err = os.MkdirTemp("", "cramped") //nolint:usetesting // the server's account cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(r.dir) })
	if err := syscall.Mount("tmpfs", r.dir, "tmpfs", 0, "size=48m,mode=0755"); err != nil {
		t.Skipf("no disk can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(r.dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	tables := filepath.Join(r.dir, "tables")
	if err := os.Mkdir(tables, 0o700); err != nil {
		t.Fatal(err)
	}
	giveTo(t, tables, serverAccount(t, admin))
	name := "cramped_" + rand32()
	for _, sql := range []string{
		fmt.Sprintf("create tablespace %s location '%s'", name, tables),
		fmt.Sprintf("create database %s tablespace %[1]s", name),
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		drop(t, admin, name)
		if _, err := admin.Exec(context.Background(), "drop tablespace "+name); err != nil {
			t.Error(err)
		}
	})
	url = database(t, server, name)
	if _, err := admin.Exec(t.Context(), "grant create on database "+name+" to "+migrations.Role); err != nil {
		t.Logf("the role of the service is not known yet: %v", err)
	}
	return url, r
}

// serverAccount returns the user that the server runs as, who owns its data.
func serverAccount(t *testing.T, admin *pgx.Conn) (uid int) {
	t.Helper()
	var data string
	if err := admin.QueryRow(t.Context(), "show data_directory").Scan(&data); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("%T", info.Sys())
	}
	return int(st.Uid)
}

func giveTo(t *testing.T, dir string, uid int) {
	t.Helper()
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
}
