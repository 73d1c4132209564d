package projections_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// Changes of every kind, none of which commutes with another one of the same row.
var (
	cellSet = &projections.Change{Table: "cells", Key: 1, SQL: `
		insert into cells (key, val) select * from unnest($1::text[], $2::bigint[])
		on conflict (key) do update set val = excluded.val`}
	cellGrow = &projections.Change{Table: "cells", Key: 1, SQL: `
		update cells c set val = (c.val * 3 + v.val) % 1000003 from unnest($1::text[], $2::bigint[]) as v (key, val) where c.key = v.key`}
	cellMake = &projections.Change{Table: "cells", Key: 1, SQL: `
		insert into cells (key, val, tag, born) select key, coalesce(val, 0), tag, born
		from unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[]) as v (key, val, tag, born)
		on conflict (key) do update set val = excluded.val, tag = excluded.tag, born = excluded.born`}
	cellPut = &projections.Change{Table: "cells", Key: 1, Merges: true, Into: cellMake, SQL: `
		update cells c set val = coalesce(v.val, c.val), tag = coalesce(v.tag, c.tag)
		from unnest($1::text[], $2::bigint[], $3::text[]) as v (key, val, tag) where c.key = v.key`}
	cellDrop = &projections.Change{Table: "cells", Key: 1, SQL: `
		delete from cells c using unnest($1::text[]) as v (key) where c.key = v.key`}
	sumAdd = &projections.Change{Table: "sums", Gathers: true, Reads: []projections.Reading{{Table: "cells", Arg: 0}}, SQL: `
		update sums set n = n + (
			select coalesce(sum(c.val + v.val), 0) from unnest($1::text[], $2::bigint[]) as v (key, val) join cells c using (key))`}
	listAdd = &projections.Change{Table: "list", Gathers: true, SQL: `
		insert into list (n, key)
		select (select count(*) from list) + row_number() over (order by v.place), v.key
		from unnest($1::text[]) with ordinality as v (key, place)`}
	rowNumber = &projections.Change{Table: "numbered", Gathers: true, Copies: []string{"key", "val"}, Numbers: "n", SQL: `
		insert into numbered (n, key, val)
		select (select count(*) from numbered) + row_number() over (order by v.place) - 1, v.key, v.val
		from (
			select distinct on (key) * from unnest($1::bytea[], $2::bigint[]) with ordinality as v (key, val, place) order by key, place
		) v
		where not exists (select from numbered r where r.key = v.key)`}
	rowKeep = &projections.Change{Table: "kept", Key: 1, Copies: []string{"key", "val"}, SQL: `
		insert into kept (key, val) select * from unnest($1::bytea[], $2::bigint[]) on conflict do nothing`}
)

// scramble draws changes at random, the same ones for the same record.
func scramble(ctx context.Context, tx projections.Tx, r ledger.Record, _ domain.Event) error {
	random := rand.New(rand.NewPCG(r.Version, 7))
	key, val := fmt.Sprint("k", random.IntN(6)), random.IntN(1000)
	switch random.IntN(24) {
	case 12, 13, 14, 15:
		return tx.Do(cellPut, key, val, nil)
	case 16, 17, 18, 19:
		return tx.Do(cellPut, key, nil, fmt.Sprint("t", val))
	case 20, 21, 22, 23:
		return tx.Do(cellMake, key, nil, nil, val)
	case 0, 1:
		return tx.Do(cellSet, key, val)
	case 2, 3, 4:
		return tx.Do(cellGrow, key, val)
	case 5:
		return tx.Do(cellDrop, key)
	case 6, 7:
		return tx.Do(sumAdd, key, val)
	case 8:
		return tx.Exec(ctx, `update cells set val = val + 1 where key <> $1`, key)
	case 9:
		return tx.Do(listAdd, key)
	case 10:
		var n int64
		if err := tx.Lookup(ctx, "cells", []any{key}, `select coalesce((select val from cells where key = $1), -1)`, key).Scan(&n); err != nil {
			return err
		}
		return tx.Do(cellSet, "seen", n)
	}
	var n int64
	if err := tx.QueryRow(ctx, `select n from sums`).Scan(&n); err != nil {
		return err
	}
	return tx.Do(cellSet, key, n%1000)
}

// However many records are folded in one go, what comes of them is what comes of them one
// by one.
func TestFoldKeepsTheOrder(t *testing.T) {
	t.Parallel()
	p := projections.Projection{
		Name: "scrambled", Version: 1, Visibility: domain.Public, Apply: scramble,
		Tables: `create table cells (key text primary key, val bigint not null, tag text, born bigint);
			create table sums (n numeric not null); insert into sums values (0);
			create table list (n bigint primary key, key text not null)`,
	}
	var whole history
	for i := range 600 {
		whole.add(t, agent.StreamOf(honest), agent.IdentityVerified{URL: fmt.Sprint(i)})
	}
	slow, fast := pgtest.Open(t), pgtest.Open(t)
	var growing history
	r := runnerOn(t, slow, &growing, p)
	for _, rec := range whole.records {
		growing.records = append(growing.records, rec)
		catchUp(t, r)
	}
	catchUp(t, runnerOn(t, fast, &whole, p))
	want := dump(t, slow)
	if diff := cmp.Diff(want, dump(t, fast)); diff != "" {
		t.Errorf("folded (-one by one +at once):\n%s", diff)
	}
	if len(want["cells"]) < 4 || len(want["list"]) < 20 {
		t.Errorf("the changes lead to %v, and the test proves nothing", want)
	}
}

// Many rows are copied into their table. Those of which one is there already end up as
// they would one by one.
func TestFoldCopiesRows(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]uint64{"new ones": 1000, "some again": 70, "one again and again": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := projections.Projection{
				Name: "rows", Version: 1, Visibility: domain.Public,
				Tables: `
					create table numbered (n bigint primary key, key bytea not null unique, val bigint);
					create table kept (key bytea primary key, val bigint)`,
				Apply: func(_ context.Context, tx projections.Tx, r ledger.Record, _ domain.Event) error {
					var val any
					if r.Version%3 > 0 {
						val = r.Version
					}
					key := fmt.Append(nil, "k", r.Version%keys)
					return errors.Join(tx.Do(rowNumber, key, val), tx.Do(rowKeep, key, val))
				},
			}
			slow, fast := pgtest.Open(t), pgtest.Open(t)
			var one, many history
			single, folded := runnerOn(t, slow, &one, p), runnerOn(t, fast, &many, p)
			for i := range 100 {
				one.add(t, agent.StreamOf(honest), agent.IdentityVerified{URL: fmt.Sprint(i)})
				catchUp(t, single)
				if i%50 == 49 {
					many.records = one.records
					catchUp(t, folded)
				}
			}
			want := dump(t, slow)
			if diff := cmp.Diff(want, dump(t, fast)); diff != "" {
				t.Errorf("folded (-one by one +at once):\n%s", diff)
			}
			if got := uint64(len(want["numbered"])); got != min(keys, 100) {
				t.Errorf("there are %d rows, want %d", got, min(keys, 100))
			}
		})
	}
}
