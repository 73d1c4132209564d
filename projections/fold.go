package projections

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/karatum/mystery/domain"
)

// Tx is what a projection changes its tables with. What is added to it runs later, and
// many changes in one go, so an error may come from a later call.
type Tx interface {
	// Do adds a change. It takes one argument for each parameter of the change.
	Do(c *Change, args ...any) error

	// Exec adds a statement that nothing is known of: it runs behind all that was
	// added before, and before all that comes after. It is for what is rare, as each
	// costs a statement of its own, and parts the changes around it.
	Exec(ctx context.Context, sql string, args ...any) error

	// Lookup runs a query that reads one row, of which table and key are given, or
	// with no key any row of the table. It sees all that was added before. A query that
	// was run before is not run again while nothing that it reads has changed.
	Lookup(ctx context.Context, table string, key []any, sql string, args ...any) pgx.Row

	// QueryRow runs a query behind all that was added before.
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// A Change is a statement that changes one row for one event, and many rows for many
// events: its parameters are arrays with an element for each event, which it takes apart
// with unnest.
//
// Changes to different rows may run in any order, and those to one row run in the
// order in which they were added.
type Change struct {
	SQL string

	// Table and the first Key arguments say which row is changed; all changes of a
	// table say it alike. With no Key, they run in the order in which they were added.
	Table string
	Key   int

	// Reads says which rows it looks at besides.
	Reads []Reading

	// Gathers says that the statement makes one thing of all changes of one row, in
	// their order, such as a sum. Else one statement changes a row once.
	Gathers bool

	// Merges says that two changes of a row, one behind the other, are as good as one
	// with the arguments of the later, and those of the earlier where the later has nil.
	Merges bool

	// Copies names the columns of Table that the arguments are, if all that the change does
	// is to add a row with them. Many such rows are copied into the table, which takes the
	// server less time. Where SQL knows what to do with a row that is there already, a copy fails,
	// and the page is applied record by record: it is for rows that are added once.
	Copies []string

	// Numbers is a column besides that counts the rows, from 0 on.
	Numbers string

	// Into is the change that makes a row, if that can make it as this change leaves it:
	// its arguments begin with those of this one, and this one behind it is as good as it
	// alone with those arguments, but for its own where they are nil.
	Into *Change
}

// A Reading is a row that a [Change] looks at: that of Table whose key is an argument.
type Reading struct {
	Table string
	Arg   int // from 0
}

// A fold is a [Tx] that makes few statements of the changes of many records.
//
// It keeps groups, which run one after the other; each is one statement. A change goes
// into the first group of its kind that lies behind everything it must not overtake.
// With many streams in a page that is one of the first few, whatever the order of the
// records is.
type fold struct {
	begin  func(context.Context) (pgx.Tx, error)
	tx     pgx.Tx // nil until something has to run
	copies bool   // whether rows may be copied
	groups []*group
	kinds  map[*Change][]int  // groups of each kind, not yet run
	writes map[string]write   // the last group that changes a row
	reads  map[string]int     // the first group that may change a row again
	looked map[string]pgx.Row // rows that were looked up
	floor  int                // groups before this one take no more
}

// A write is the last change of a row.
type write struct {
	group int
	index int // in the columns of the group
	kind  *Change
}

// A group is a statement with the arguments of many changes.
type group struct {
	sql     string
	kind    *Change // nil for any other statement
	columns [][]any // of a change: an element for each event
	args    []any   // of any other statement
}

// copyFrom is how many rows are copied rather than inserted by a statement: a copy costs
// two ways to the server and back.
const copyFrom = 20

// copied reports whether the changes of g are rows to be copied.
func (g *group) copied() bool {
	return g.kind != nil && g.kind.Copies != nil && len(g.columns[0]) >= copyFrom
}

// copyInto copies the rows of g.
func (g *group) copyInto(ctx context.Context, tx pgx.Tx) error {
	if g.kind.Numbers != "" {
		if err := g.number(ctx, tx); err != nil {
			return err
		}
	}
	names := g.kind.Copies
	if len(g.columns) > len(names) {
		names = append(slices.Clip(names), g.kind.Numbers)
	}
	row := make([]any, len(g.columns))
	_, err := tx.CopyFrom(ctx, pgx.Identifier{g.kind.Table}, names, pgx.CopyFromSlice(len(g.columns[0]), func(i int) ([]any, error) {
		for k, column := range g.columns {
			row[k] = column[i]
		}
		return row, nil
	}))
	return err
}

// number numbers the rows of g, behind those that the table has.
func (g *group) number(ctx context.Context, tx pgx.Tx) error {
	table, number := pgx.Identifier{g.kind.Table}.Sanitize(), pgx.Identifier{g.kind.Numbers}.Sanitize()
	next := int64(0)
	if err := tx.QueryRow(ctx, `select coalesce(max(`+number+`) + 1, 0) from `+table).Scan(&next); err != nil {
		return err
	}
	numbers := make([]any, len(g.columns[0]))
	for i := range numbers {
		numbers[i] = next + int64(i)
	}
	g.columns = append(g.columns, numbers)
	return nil
}

// merge puts the arguments of a later change over those of an earlier one.
func (g *group) merge(index int, args []any) {
	for i, a := range args {
		if a != nil {
			g.columns[i][index] = a
		}
	}
}

// arguments returns what the statement is run with.
func (g *group) arguments() []any {
	args := g.args
	for _, column := range g.columns {
		args = append(args, column)
	}
	return args
}

func newFold(begin func(context.Context) (pgx.Tx, error)) *fold {
	f := &fold{begin: begin}
	f.reset()
	return f
}

func (f *fold) reset() {
	f.groups, f.floor = nil, 0
	f.kinds, f.writes, f.reads = make(map[*Change][]int), make(map[string]write), make(map[string]int)
	f.looked = make(map[string]pgx.Row)
}

// rowKey names a row, or with no key all rows of a table.
func rowKey(table string, key []any) string {
	b := append(make([]byte, 0, 96), table...)
	for _, k := range key {
		b = append(b, 0)
		switch k := k.(type) {
		case string:
			b = append(b, k...)
		case []byte:
			b = append(b, k...)
		case uint64:
			b = strconv.AppendUint(b, k, 10)
		case uint32:
			b = strconv.AppendUint(b, uint64(k), 10)
		case int:
			b = strconv.AppendInt(b, int64(k), 10)
		default:
			b = fmt.Append(b, k)
		}
	}
	return string(b)
}

// Do implements [Tx].
func (f *fold) Do(c *Change, args ...any) error {
	own := rowKey(c.Table, args[:c.Key])
	at := max(f.floor, f.reads[own])
	if w, ok := f.writes[own]; ok {
		if (c.Merges && w.kind == c || c.Into != nil && w.kind == c.Into) && at <= w.group {
			f.groups[w.group].merge(w.index, args)
			return nil
		}
		if c.Gathers && w.kind == c {
			at = max(at, w.group)
		} else {
			at = max(at, w.group+1)
		}
	}
	read := make([]string, len(c.Reads))
	for i, r := range c.Reads {
		read[i] = rowKey(r.Table, args[r.Arg:r.Arg+1])
		if w, ok := f.writes[read[i]]; ok {
			at = max(at, w.group+1)
		}
	}
	place := f.place(c, at, len(args))
	g := f.groups[place]
	for i, a := range args {
		g.columns[i] = append(g.columns[i], a)
	}
	f.writes[own] = write{place, len(g.columns[0]) - 1, c}
	for _, r := range read {
		f.reads[r] = max(f.reads[r], place+1)
	}
	return nil
}

// place returns the first group of a kind that is not before at.
func (f *fold) place(c *Change, at, args int) int {
	for _, place := range f.kinds[c] {
		if place >= at {
			return place
		}
	}
	f.groups = append(f.groups, &group{sql: c.SQL, kind: c, columns: make([][]any, args)})
	place := len(f.groups) - 1
	f.kinds[c] = append(f.kinds[c], place)
	return place
}

// Exec implements [Tx].
func (f *fold) Exec(_ context.Context, sql string, args ...any) error {
	f.groups = append(f.groups, &group{sql: sql, args: args})
	f.floor = len(f.groups)
	return nil
}

// Lookup implements [Tx].
func (f *fold) Lookup(ctx context.Context, table string, key []any, sql string, args ...any) pgx.Row {
	own := rowKey(table, key)
	_, changed := f.writes[own]
	if changed || f.floor > 0 {
		return f.QueryRow(ctx, sql, args...)
	}
	query := rowKey(own+sql, args)
	row, ok := f.looked[query]
	if !ok {
		if err := f.start(ctx); err != nil {
			return noRow{err}
		}
		row = keep(f.tx.Query(ctx, sql, args...))
		f.looked[query] = row
	}
	return row
}

// A keptRow is a row that can be scanned many times.
type keptRow struct {
	types  *pgtype.Map
	fields []pgconn.FieldDescription
	values [][]byte
}

// keep returns the first row of a query, with all that is the matter with it.
func keep(rows pgx.Rows, err error) pgx.Row {
	if err != nil {
		return noRow{err}
	}
	defer rows.Close()
	if !rows.Next() {
		return noRow{cmp.Or(rows.Err(), pgx.ErrNoRows)}
	}
	r := keptRow{types: rows.Conn().TypeMap(), fields: rows.FieldDescriptions()}
	for _, v := range rows.RawValues() {
		r.values = append(r.values, bytes.Clone(v))
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return noRow{err}
	}
	return r
}

func (r keptRow) Scan(dest ...any) error {
	if len(dest) != len(r.values) {
		return fmt.Errorf("a row of %d columns is scanned into %d: %w", len(r.values), len(dest), domain.ErrInvalid)
	}
	for i, f := range r.fields {
		if err := r.types.Scan(f.DataTypeOID, f.Format, r.values[i], dest[i]); err != nil {
			return err
		}
	}
	return nil
}

// QueryRow implements [Tx].
func (f *fold) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := f.start(ctx); err != nil {
		return noRow{err}
	}
	if err := f.flush(ctx); err != nil {
		return noRow{err}
	}
	return f.tx.QueryRow(ctx, sql, args...)
}

func (f *fold) start(ctx context.Context) (err error) {
	if f.tx == nil {
		f.tx, err = f.begin(ctx)
	}
	return err
}

// flush runs what was added.
func (f *fold) flush(ctx context.Context) error {
	if len(f.groups) == 0 {
		return nil
	}
	if err := f.start(ctx); err != nil {
		return err
	}
	groups := f.groups
	f.reset()
	b := new(pgx.Batch)
	send := func() error {
		if b.Len() == 0 {
			return nil
		}
		sent := b
		b = new(pgx.Batch)
		return f.tx.SendBatch(ctx, sent).Close()
	}
	for _, g := range groups {
		if !f.copies || !g.copied() {
			b.Queue(g.sql, g.arguments()...)
			continue
		}
		if err := send(); err != nil {
			return err
		}
		if err := g.copyInto(ctx, f.tx); err != nil {
			return err
		}
	}
	return send()
}

// noRow is the row of a query that did not run.
type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }
