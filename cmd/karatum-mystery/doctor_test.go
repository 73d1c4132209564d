package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	operatorapi "github.com/karatum/mystery/api/operator"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// TestDoctor has a database in every state that an operator may find it in.
func TestDoctor(t *testing.T) {
	t.Parallel()
	admin, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	url := newDatabase(t, admin, "doctor")
	getenv := env(t, map[string]string{"MYSTERY_DATABASE_URL": url, "MYSTERY_RPC_11155111": "http://127.0.0.1:1/"})
	examine := func() (map[string]check, int) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"doctor", "--json"}, getenv, &stdout, &stderr)
		var list []check
		if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
			t.Fatalf("doctor --json = %d, %q (%s): %v", code, &stdout, &stderr, err)
		}
		found := make(map[string]check)
		for _, c := range list {
			if _, twice := found[c.Name]; twice || c.Detail == "" {
				t.Errorf("doctor says %+v, want one line for each check and words in it", c)
			}
			found[c.Name] = c
		}
		return found, code
	}
	found, code := examine() // of what was never used, it is the first start
	if code != 0 {
		t.Errorf("doctor on a new database = %d, %v", code, found)
	}
	status := make(map[string]string)
	for name, c := range found {
		status[name] = c.Status
	}
	if diff := cmp.Diff(map[string]string{
		"public url": "warn", "operator secret": "warn", "log key": "warn", "witnesses": "warn", "source addresses": "warn", "proof address": "warn",
		"egress": "ok", "trusted proxies": "ok", "database": "ok", "migrations": "ok", "programme": "ok", "operator keys": "ok", "log": "ok",
		"read models": "ok", "clock": "ok", "public log": "ok", "commits": "ok", "shopper": "ok", "chain 11155111": "warn", "attesting": "warn", "payments": "ok",
	}, status); diff != "" {
		t.Errorf("doctor on a new database (-want +got):\n%s", diff)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, tt := range []struct {
		name, change, back string
		check, status      string
		says               string
	}{
		{
			"migrated by a former program", `update mystery.schema_version set version = version - 1`, `update mystery.schema_version set version = version + 1`,
			"start", "fail", "start serve or work, which does that",
		},
		{
			"migrated by a newer program", `update mystery.schema_version set version = version + 1`, `update mystery.schema_version set version = version - 1`,
			"migrations", "warn", "finish the upgrade",
		},
		{
			"read models of a former program", `update mystery_rm.checkpoints set version = version - 1 where name = 'shops'`,
			`update mystery_rm.checkpoints set version = version + 1 where name = 'shops'`, "start", "fail", "shops",
		},
		{
			"a log that goes on from elsewhere", `update mystery.log_head set position = position + 7`, `update mystery.log_head set position = position - 7`,
			"log", "fail", "the next record would stand behind position",
		},
		{
			"read models of another backup", `update mystery_rm.checkpoints set position = position + 1000`, `update mystery_rm.checkpoints set position = position - 1000`,
			"log", "fail", "restored from another backup",
		},
		{
			"a stream that is parked", `insert into mystery_rm.parked (projection, stream, version, reason) values ('shops', 'shop/x', 1, 'x')`,
			`delete from mystery_rm.parked`, "read models", "warn", "shops leaves out 1 streams",
		},
		{
			"records that no read model has", `update mystery_rm.checkpoints set position = 0`, ``,
			"read models", "ok", "are where the log is", // they are younger than a minute
		},
	} {
		if _, err := conn.Exec(t.Context(), tt.change); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		want := 0
		if tt.status == "fail" {
			want = exitError
		}
		if found, code := examine(); code != want || found[tt.check].Status != tt.status || !strings.Contains(found[tt.check].Detail, tt.says) {
			t.Errorf("%s: doctor = %d, %+v, want %d and of %q that it is %s: %s", tt.name, code, found, want, tt.check, tt.status, tt.says)
		}
		if _, err := conn.Exec(t.Context(), tt.back); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
	}
}

func TestDoctorWithoutADatabase(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	getenv := env(t, map[string]string{"MYSTERY_DATABASE_URL": "host=/nonexistent user=x dbname=y"})
	if code := run(t.Context(), []string{"doctor"}, getenv, &stdout, t.Output()); code != exitError || !strings.Contains(stdout.String(), "connect to the database") {
		t.Errorf("doctor = %d, %s, want %d and that the database does not answer", code, &stdout, exitError)
	}
}

func TestVitalsAreJudged(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	due := func(d time.Duration) operatorapi.Vitals {
		return operatorapi.Vitals{Shopper: projections.Vitals{Consents: 2, Due: 3, OldestDue: ago(d)}}
	}
	log := func(size, published uint64, signed time.Duration) check {
		return publicLog(publiclog.Standing{Size: size, Published: published, Signed: ago(signed)}, 10*time.Minute, now)
	}
	models := func(s projections.Standing) check { return readModels([]projections.Standing{s}, now) }
	for _, tt := range []struct {
		name   string
		got    check
		status string
		says   string
	}{
		{"a clock that is right", clock(time.Second), "ok", "1s behind"},
		{"a clock that is slow", clock(3 * time.Second), "warn", "3s behind the database's"},
		{"a clock that is fast", clock(-time.Minute), "warn", "1m0s ahead of"},
		{"a log that cannot be read", logEnds(0, errors.New("no answer")), "fail", "no answer"},
		{"a log without an end", logEnds(0, nil), "ok", "taken from it last"},
		{"a log with one", logEnds(7, nil), "ok", "position 7"},
		{"read models that are there", models(projections.Standing{Name: "shops", Position: 7, End: 7}), "ok", "all 1"},
		{"read models that are nearly there", models(projections.Standing{Name: "shops", Oldest: ago(time.Second)}), "ok", "all 1"},
		{"read models that nobody brings on", models(projections.Standing{Name: "shops", Oldest: ago(time.Hour)}), "warn", "shops is 1h0m0s behind"},
		{"read models that are made anew", models(projections.Standing{Name: "shops", Oldest: ago(time.Hour), Rebuilding: true}), "ok", "all 1"},
		{"a public log without records", log(0, 0, 0), "ok", "nothing"},
		{"a public log without a checkpoint", log(3, 0, 0), "warn", "no checkpoint"},
		{"a public log that is signed", log(3, 3, 24*time.Hour), "ok", "3 of them"},
		{"a public log that is signed soon", log(4, 3, 20*time.Minute), "ok", "3 of them"},
		{"a public log that is not signed any more", log(4, 3, 22*time.Minute), "warn", "overdue"},
		{"commits that are all in batches", commits(time.Time{}, true, now), "ok", "each is"},
		{"commits that nobody attests", commits(ago(99*time.Hour), false, now), "ok", "nothing is attested"},
		{"commits that wait for the hour", commits(ago(time.Hour), true, now), "ok", "1h0m0s ago"},
		{"commits that wait for long", commits(ago(2*time.Hour), true, now), "warn", "see that work runs"},
		{"commits that wait for too long", commits(ago(7*time.Hour), true, now), "fail", "see that work runs"},
		{"nothing due", shopper(operatorapi.Vitals{}, now), "ok", "last sent never"},
		{"something just due", shopper(due(time.Minute), now), "ok", "3 steps are due"},
		{"something late", shopper(due(2*time.Hour), now), "warn", "see that work runs"},
		{"something a day late", shopper(due(25*time.Hour), now), "fail", "see that work runs"},
		{"a day without a plan", shopper(operatorapi.Vitals{Shopper: projections.Vitals{Consents: 2, Unplanned: 1}}, now), "warn", "no plan for 1 of them"},
	} {
		if tt.got.Status != tt.status || !strings.Contains(tt.got.Detail, tt.says) {
			t.Errorf("%s: %+v, want %s and %q", tt.name, tt.got, tt.status, tt.says)
		}
	}
}
