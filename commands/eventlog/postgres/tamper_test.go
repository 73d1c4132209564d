package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/karatum/mystery/commands/eventlog/postgres"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
)

// audit reads the whole log and returns the first thing that is not as appends
// leave it.
func audit(t *testing.T, log *postgres.Log) error {
	t.Helper()
	heads := make(map[ledger.Stream]ledger.Record)
	for r, err := range log.After(t.Context(), 0) {
		if err != nil {
			return err
		}
		head := heads[r.Stream]
		if r.Version != head.Version+1 {
			return fmt.Errorf("%s goes on with version %d behind %d", r.Stream, r.Version, head.Version)
		}
		if r.ChainHash(head.Hash) != r.Hash {
			return fmt.Errorf("%s does not continue its chain at version %d", r.Stream, r.Version)
		}
		heads[r.Stream] = r
	}
	return nil
}

func fill(t *testing.T, log *postgres.Log) {
	t.Helper()
	for v := range uint64(4) {
		for _, s := range []ledger.Stream{"a/1", "a/2"} {
			if err := log.Append(t.Context(), s, v, command(fmt.Sprint(v)), noted{int(v)}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A superuser can do anything but go unnoticed: whatever is changed in a record
// breaks the chain of its stream.
func TestChangedRecordsAreNoticed(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`update events set data = '{"N":7}' where stream = 'a/1' and version = 2`,
		`update events set data = data || ' '::bytea where stream = 'a/1' and version = 4`,
		`update events set actor = 'other' where stream = 'a/1' and version = 2`,
		`update events set command = 'other' where stream = 'a/1' and version = 2`,
		`update events set correlation = 'other' where stream = 'a/1' and version = 2`,
		`update events set type = 'postgres.noted.v2' where stream = 'a/1' and version = 4`,
		`update events set time = time + interval '1 microsecond' where stream = 'a/1' and version = 4`,
		`update events set id = gen_random_uuid() where stream = 'a/1' and version = 4`,
		`update events set hash = sha256(hash) where stream = 'a/1' and version = 4`,
		`update events set stream = 'a/3' where stream = 'a/1'`,
		`update events set version = version + 10 where stream = 'a/1' and version = 4`,
		`update events e set data = o.data from events o where e.stream = 'a/1' and o.stream = 'a/2' and e.version = 1 and o.version = 2`,
		`update events set position = 9 - position where true`,
		`delete from events where position = 1`,
		`delete from events where stream = 'a/1' and version = 3`,
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Open(t)
			log := open(t, pool)
			fill(t, log)
			if err := audit(t, log); err != nil {
				t.Fatal(err)
			}
			owner := pgtest.Owner(t, pool)
			for _, s := range []string{"alter table events disable trigger all", "alter table events drop constraint events_pkey", sql} {
				if _, err := owner.Exec(t.Context(), s); err != nil {
					t.Fatalf("%s: %v", s, err)
				}
			}
			if err := audit(t, log); err == nil {
				t.Error("nothing was noticed")
			} else {
				t.Log(err)
			}
		})
	}
}

// The role of the service may change the heads. Whatever it writes there, nothing
// in the log is overwritten and no reader is shown less than before: appends are
// refused, or what is appended is noticed.
func TestDamagedHeads(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`update heads set version = version - 1 where stream = 'a/1'`,
		`update heads set version = version + 1 where stream = 'a/1'`,
		`update heads set version = 0 where stream = 'a/1'`,
		`update heads set hash = sha256(hash) where stream = 'a/1'`,
		`update heads set stream = 'a/9' where stream = 'a/1'`,
		`update log_head set position = 0`,
		`update log_head set position = position - 1`,
		`update log_head set position = position + 1`,
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Open(t)
			log := open(t, pool)
			fill(t, log)
			if _, err := pool.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			var version uint64
			for v := range uint64(8) { // whatever the head says now
				if err := log.Append(t.Context(), "a/1", v, command(fmt.Sprint("late ", v)), noted{9}); err == nil {
					version = v + 1
					break
				} else if errors.Is(err, domain.ErrUnavailable) {
					t.Errorf("a damaged head looks like an outage: %v", err)
				}
			}
			err := audit(t, log)
			if version != 0 && err == nil {
				t.Error("an append behind a damaged head was not noticed")
			}
			t.Logf("appended at %d, audit: %v", version, err)
			old := 0
			rows, err := pool.Query(t.Context(), "select 1 from events where command not like 'late%' and position <= 8")
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				old++
			}
			if old != 8 {
				t.Errorf("%d of 8 records are left", old)
			}
		})
	}
}
