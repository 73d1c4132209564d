package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/migrations"
	"github.com/karatum/mystery/migrations/pgtest"
)

var tamperAll = flag.Bool("tamper", false, "apply every kind of tampering, and not only some of them")

// sampled is which part of the kinds a plain test run applies.
const sampled = 12

// A tampering is something that somebody with all rights does to a store.
type tampering struct {
	name, sql string
}

// TestTamper keeps the ledger of some days, tampers with copies of it in every way,
// one by one, and looks whether ledger verify finds it.
func TestTamper(t *testing.T) {
	inOrder(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("copies databases")
	}
	server := pgtest.URL(t)
	admin, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	original := "tamper_" + strings.ToLower(rand32())
	schema := stageOn(t, admin, server, original)
	if _, err := admin.Exec(t.Context(), `alter database `+original+` allow_connections false`); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, original); err != nil {
		t.Fatal(err)
	}
	copied := original + "_copy"
	attempt := func(t *testing.T, do func(*pgx.Conn)) (assembly.Verification, error) {
		t.Helper()
		drop(t, admin, copied)
		for attempt := 0; ; attempt++ { // sessions that were told to end take a moment
			_, err := admin.Exec(t.Context(), `create database `+copied+` template `+original)
			if err == nil {
				break
			}
			if attempt == 600 {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		// The rights on a database are not those of its template.
		if _, err := admin.Exec(t.Context(), `grant create on database `+copied+` to `+migrations.Role); err != nil {
			t.Fatal(err)
		}
		owner, err := pgx.Connect(t.Context(), database(t, server, copied))
		if err != nil {
			t.Fatal(err)
		}
		do(owner)
		if err := owner.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := assembly.OpenStore(t.Context(), assembly.Config{DatabaseURL: database(t, server, copied)}, assembly.Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Verify(t.Context(), nil)
	}

	var kinds []tampering
	clean, err := attempt(t, func(owner *pgx.Conn) { kinds = tamperings(t, owner, schema) })
	if err != nil || len(clean.Findings) > 0 || clean.Records == 0 {
		t.Fatalf("of the ledger as it is, verify says %+v, %v", clean, err)
	}
	if len(kinds) < 60 {
		t.Errorf("%d kinds of tampering, want 60", len(kinds))
	}
	found, missed := 0, 0
	for i, k := range kinds {
		if !*tamperAll && i%sampled != 0 {
			continue
		}
		v, err := attempt(t, func(owner *pgx.Conn) { k.apply(t, owner, schema) })
		if len(v.Findings) == 0 || err != nil {
			missed++
			t.Errorf("missed  %s: %v", k.name, err)
			continue
		}
		found++
		f := v.Findings[0]
		t.Logf("found   %s: %s, position %d %s: %s", k.name, f.Check, f.Position, f.Stream, f.Detail)
	}
	t.Logf("%d found, %d missed", found, missed)
}

// rand32 returns a name that no other run has.
func rand32() string { return fmt.Sprintf("%d_%d", time.Now().UnixNano(), schemas.Add(1)) }

// database returns the connection string of a server with another database.
func database(t *testing.T, server, name string) string {
	t.Helper()
	if !strings.Contains(server, "://") {
		return server + " dbname=" + name
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func drop(t *testing.T, admin *pgx.Conn, name string) {
	t.Helper()
	if _, err := admin.Exec(context.Background(), `drop database if exists `+name+` with (force)`); err != nil {
		t.Error(err)
	}
}

// stageOn runs some days of the demo on a database of its own and returns the schema
// that they are in.
func stageOn(t *testing.T, admin *pgx.Conn, server, name string) (schema string) {
	t.Helper()
	if _, err := admin.Exec(t.Context(), `create database `+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		drop(t, admin, name+"_copy")
		drop(t, admin, name)
	})
	f := flags{seed: "11", listen: "127.0.0.1:0"}
	s := emptyOn(t, f, database(t, server, name))
	consents, err := s.enrol(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.examine(t.Context(), consents); err != nil {
		t.Fatal(err)
	}
	s.days(t, 4)
	if err := s.prog.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.prog.PublishLedger(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(t.Context(), database(t, server, name))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), `select nspname from pg_namespace where nspname like 'demo\_%' and nspname not like '%\_rm'`).Scan(&schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// The tables of a store that are checked. What else there is may change or go.
var tamperedTables = []string{
	"events", "heads", "log_head", "tree_head", "tree_streams", "tree_leaves", "tree_tiles", "tree_checkpoints", "tree_published",
}

// unclaimed are columns that nobody takes for true: when something was done and how
// fast, and counters by which two processes keep out of each other's way.
var unclaimed = []string{"generation", "moved", "one", "rate", "signed_at"}

// flips says how a value of a type becomes another one.
var flips = map[string]string{
	"bigint":                   "$v + 1",
	"integer":                  "$v + 1",
	"smallint":                 "$v + 1",
	"boolean":                  "not $v",
	"text":                     "$v || 'x'",
	"uuid":                     "gen_random_uuid()",
	"timestamp with time zone": "$v + interval '1 microsecond'",
	"bytea":                    "set_byte($v, length($v) / 2, get_byte($v, length($v) / 2) # 1)",
}

// tamperings returns every kind: all columns one by one, and rows.
func tamperings(t *testing.T, owner *pgx.Conn, schema string) (kinds []tampering) {
	t.Helper()
	rows, err := owner.Query(t.Context(), `
		select table_schema, table_name, column_name, data_type from information_schema.columns
		where (table_schema = $1 and table_name = any($2)) or table_schema = $1 || '_rm'
		order by table_schema, table_name, ordinal_position`, schema, tamperedTables)
	if err != nil {
		t.Fatal(err)
	}
	type column struct{ schema, table, name, kind string }
	columns, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c column, err error) {
		return c, r.Scan(&c.schema, &c.table, &c.name, &c.kind)
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, c := range columns {
		table := pgx.Identifier{c.schema, c.table}.Sanitize()
		var n int
		if err := owner.QueryRow(t.Context(), `select count(`+pgx.Identifier{c.name}.Sanitize()+`) from `+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 0 || slices.Contains(unclaimed, c.name) {
			continue
		}
		where := `ctid = (select ctid from ` + table + ` where ` + pgx.Identifier{c.name}.Sanitize() + ` is not null order by ctid offset ` + fmt.Sprint(n/2) + ` limit 1)`
		if flip := flips[c.kind]; flip != "" {
			kinds = append(kinds, tampering{
				fmt.Sprintf("%s.%s flipped", c.table, c.name),
				fmt.Sprintf(`update %s set %s = %s where %s`, table, pgx.Identifier{c.name}.Sanitize(), strings.ReplaceAll(flip, "$v", pgx.Identifier{c.name}.Sanitize()), where),
			})
		}
		if !seen[table] && c.table != "tree_published" { // that a note was not published yet is no lie
			kinds = append(kinds, tampering{"a row of " + c.table + " deleted", `delete from ` + table + ` where ` + where})
		}
		if !seen[table] && c.schema != schema && c.table != "checkpoints" {
			kinds = append(kinds, tampering{"a row of " + c.table + " twice", `insert into ` + table + ` select * from ` + table + ` where ` + where})
		}
		seen[table] = true
	}
	at := func(sql string) string { return strings.ReplaceAll(sql, "$S", schema) }
	return append(kinds,
		tampering{"the last record deleted", at(`delete from $S.events where position = (select max(position) from $S.events)`)},
		tampering{"the last record deleted, and the ends put right", at(`
			with last as (select stream, version, position from $S.events order by position desc limit 1),
				head as (update $S.log_head set position = (select position - 1 from last)),
				first as (delete from $S.heads h using last where h.stream = last.stream and last.version = 1),
				later as (update $S.heads h set version = e.version, hash = e.hash
					from last, $S.events e where h.stream = last.stream and e.stream = last.stream and e.version = last.version - 1)
			delete from $S.events e using last where e.position = last.position`)},
		tampering{"two public records swapped", at(`update $S.events set position = 3 - position where position in (1, 2)`)},
		tampering{"a record doubled at the end", at(`
			with last as (update $S.log_head set position = position + 1 returning position)
			insert into $S.events select last.position, stream, version, gen_random_uuid(), type, time, actor, command, correlation, data, hash
			from $S.events e, last where e.position = 100`)},
		tampering{"a record of another type", at(`update $S.events set type = 'plan.opened.v1' where position = (select min(position) from $S.events where type = 'plan.sealed.v1')`)},
		tampering{"a type that nobody knows", at(`update $S.events set type = 'shop.sent.v9' where position = (select max(position) from $S.events where type = 'shop.sent.v1')`)},
		tampering{"a space behind the data", at(`update $S.events set data = data || ' '::bytea where position = 50`)},
		tampering{"data that is no JSON", at(`update $S.events set data = '{' where position = 50`)},
		tampering{"a stream called otherwise", at(`update $S.events set stream = 'shop/other' where stream = (select max(stream) from $S.events where stream like 'shop/%')`)},
		tampering{"a hash cut short", at(`update $S.events set hash = substr(hash, 2) where position = 60`)},
		tampering{"a negative version", at(`update $S.events set version = -version where position = 60`)},
		tampering{"a sealed record deleted with all behind it in its stream", at(`
			delete from $S.events e using (select stream, version from $S.events where type = 'shop.sent.v1' order by position limit 1) s
			where e.stream = s.stream and e.version >= s.version`)},
		tampering{"a reply changed", at(`update $S.bodies set bytes = bytes || '.' where key = (select min(key) from $S.bodies where key like 'reply/%')`)},
		tampering{"a reply with another salt", at(`
			update $S.bodies set salt = set_byte(salt, 5, get_byte(salt, 5) # 1) where key = (select max(key) from $S.bodies where key like 'reply/%')`)},
		tampering{"a reply deleted", at(`delete from $S.bodies where key = (select max(key) from $S.bodies where key like 'reply/%')`)},
		tampering{"the replies of two slots swapped", at(`
			with two as (select array_agg(key order by key) as keys from (select key from $S.bodies where key like 'reply/%' order by key limit 2) k)
			update $S.bodies b set bytes = o.bytes, salt = o.salt from two, $S.bodies o
			where b.key = any(two.keys) and o.key = any(two.keys) and o.key <> b.key`)},
		tampering{"a session changed", at(`
			update $S.bodies set bytes = convert_to(replace(convert_from(bytes, 'UTF8'), '"method":"POST"', '"method":"PUT"'), 'UTF8')
			where key = (select min(key) from $S.bodies where key like 'session/%' and convert_from(bytes, 'UTF8') like '%"method":"POST"%')`)},
		tampering{"a session deleted", at(`delete from $S.bodies where key = (select max(key) from $S.bodies where key like 'session/%')`)},
		tampering{"a surface changed", at(`update $S.bodies set bytes = bytes || ' ' where key = (select min(key) from $S.bodies where key like 'surface/%')`)},
		tampering{"a surface deleted", at(`delete from $S.bodies where key = (select max(key) from $S.bodies where key like 'surface/%')`)},
		tampering{"all leaves deleted", at(`delete from $S.tree_leaves where true`)},
		tampering{"a leaf too many", at(`
			insert into $S.tree_leaves select (select size from $S.tree_head), stream, version + 1, record, prev, hash from $S.tree_leaves where index = 3`)},
		tampering{"leaves swapped", at(`update $S.tree_leaves set index = 9 - index where index in (4, 5)`)},
		tampering{"the tree set back", at(`update $S.tree_head set size = size - 1`)},
		tampering{"a tile cut short", at(`update $S.tree_tiles set hashes = substr(hashes, 1, 32) where level = 0 and n = 0`)},
		tampering{"a signature changed", at(`update $S.tree_checkpoints set note = set_byte(note, length(note) - 9, get_byte(note, length(note) - 9) # 2)`)},
		tampering{"another key of the log", at(`update $S.tree_head set vkey = null`)},
		tampering{"a read model emptied", at(`delete from $S_rm.shops`)},
		tampering{"a read model dropped", at(`drop table $S_rm.findings cascade`)},
		tampering{"a read model beyond the ledger", at(`update $S_rm.checkpoints set position = 1000000 where name = (select min(name) from $S_rm.checkpoints)`)},
	)
}

// apply does it on a copy, in which nothing refuses it.
func (k tampering) apply(t *testing.T, owner *pgx.Conn, schema string) {
	t.Helper()
	for _, sql := range []string{
		`set session_replication_role = replica`,
		fmt.Sprintf(`do $$ declare c record; begin
			for c in select conrelid::regclass as tab, conname, contype from pg_constraint join pg_namespace n on n.oid = connamespace
				where nspname in ('%[1]s', '%[1]s_rm') and contype in ('c', 'u', 'p', 'f')
				order by contype = 'p'
			loop
				execute format('alter table %%s drop constraint if exists %%I cascade', c.tab, c.conname);
			end loop;
			for c in select i.indexrelid::regclass as ind from pg_index i join pg_class t on t.oid = i.indexrelid join pg_namespace n on n.oid = t.relnamespace
				where nspname in ('%[1]s', '%[1]s_rm') and i.indisunique
			loop
				execute format('drop index %%s', c.ind);
			end loop;
		end $$`, schema),
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	tag, err := owner.Exec(t.Context(), k.sql)
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	if tag.RowsAffected() == 0 && !strings.HasPrefix(k.sql, "drop") {
		t.Fatalf("%s: it changes nothing", k.name)
	}
}

// TestExportImport takes the ledger of some days to another database, byte for byte.
func TestExportImport(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, _ := open(t, "12")
	s.days(t, 2)
	var written bytes.Buffer
	from := storeOf(t, schemaOf(t, s))
	n, err := from.Export(t.Context(), &written)
	if err != nil || n == 0 {
		t.Fatalf("Export = %d, %v", n, err)
	}
	pool := pgtest.Open(t)
	to := storeOf(t, pgtest.Schema(pool))
	for name, text := range map[string]string{
		"a line less":           written.String()[strings.Index(written.String(), "\n")+1:],
		"half a line":           written.String()[:written.Len()/2],
		"nothing":               "",
		"a word changed":        strings.Replace(written.String(), "operator", "operetta", 1),
		"another hash":          strings.Replace(written.String(), `{"hash":"`, `{"hash":"0`, 1),
		"spaces in the record":  strings.Replace(written.String(), `"record":{`, `"record":{ `, 1),
		"a field that is extra": strings.Replace(written.String(), `{"hash":`, `{"extra":1,"hash":`, 1),
	} {
		if _, err := to.Import(t.Context(), strings.NewReader(text)); err == nil {
			t.Errorf("Import of %s succeeds", name)
		}
	}
	if n, err := to.Import(t.Context(), bytes.NewReader(written.Bytes())); err != nil || n != uint64(bytes.Count(written.Bytes(), []byte("\n"))) {
		t.Fatalf("Import = %d, %v", n, err)
	}
	var again bytes.Buffer
	if _, err := to.Export(t.Context(), &again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Bytes(), written.Bytes()) {
		t.Error("what was imported is exported otherwise")
	}
	if _, err := to.Import(t.Context(), bytes.NewReader(written.Bytes())); err == nil {
		t.Error("Import into a ledger with records succeeds")
	}
}

func storeOf(t *testing.T, schema string) *assembly.Store {
	t.Helper()
	s, err := assembly.OpenStore(t.Context(), assembly.Config{DatabaseURL: pgtest.URL(t)}, assembly.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// schemaOf returns the schema that a stage works in.
func schemaOf(t *testing.T, s *stage) string {
	t.Helper()
	list, _, _ := strings.Cut(s.prog.Reader.Pool.Config().ConnConfig.RuntimeParams["search_path"], ",")
	return list
}
