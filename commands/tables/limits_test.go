package tables_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/migrations/pgtest"
)

// A clock stands until it is put on.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	c := newClock()
	l := &tables.Limits{Pool: pgtest.Open(t), Now: c.Now}
	one := commands.Quota{Name: "one", Key: "a\x00\xff", Limit: 2, Window: time.Hour} // callers write keys
	other := commands.Quota{Name: "other", Key: "a\x00\xff", Limit: 3, Window: time.Hour}
	left := func(remaining int, reset time.Duration) commands.Left {
		return commands.Left{Remaining: remaining, Reset: reset}
	}
	for _, step := range []struct {
		name   string
		pass   time.Duration
		quotas []commands.Quota
		want   commands.Spent
		wait   time.Duration
	}{
		{"the first", 0, []commands.Quota{one, other}, commands.Spent{OK: true, Left: []commands.Left{left(1, time.Hour), left(2, time.Hour)}}, 0},
		{
			"the second, in the same window", 10 * time.Minute,
			[]commands.Quota{one, other},
			commands.Spent{OK: true, Left: []commands.Left{left(0, 50*time.Minute), left(1, 50*time.Minute)}},
			0,
		},
		{
			"one too many charges nothing", 10 * time.Minute,
			[]commands.Quota{one, other},
			commands.Spent{Left: []commands.Left{left(0, 40*time.Minute), left(1, 40*time.Minute)}},
			40 * time.Minute,
		},
		{
			"the other limit has room by itself", 0,
			[]commands.Quota{other},
			commands.Spent{OK: true, Left: []commands.Left{left(0, 40*time.Minute)}},
			0,
		},
		{
			"just before the first lapses", 40*time.Minute - time.Microsecond,
			[]commands.Quota{one},
			commands.Spent{Left: []commands.Left{left(0, time.Microsecond)}},
			time.Microsecond,
		},
		{
			"the first has lapsed and the second has not", time.Microsecond,
			[]commands.Quota{one},
			commands.Spent{OK: true, Left: []commands.Left{left(0, 10*time.Minute)}},
			0,
		},
		{"everything has lapsed", 2 * time.Hour, []commands.Quota{one}, commands.Spent{OK: true, Left: []commands.Left{left(1, time.Hour)}}, 0},
	} {
		c.pass(step.pass)
		got, err := l.Take(t.Context(), step.quotas)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if got.Wait() != step.wait {
			t.Errorf("%s: Wait() = %s, want %s", step.name, got.Wait(), step.wait)
		}
	}
}

// By the clock of the database, and exact however many ask at once.
func TestLimitsAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	quotas := commands.GrantQuotas("build:42", netip.MustParseAddr("192.0.2.1"))
	var ok atomic.Int64
	var wg sync.WaitGroup
	for range 4 { // processes
		l := &tables.Limits{Pool: pool}
		for range 6 {
			wg.Go(func() {
				spent, err := l.Take(t.Context(), quotas)
				if err != nil {
					t.Error(err)
				}
				if spent.OK {
					ok.Add(1)
				}
			})
		}
	}
	wg.Wait()
	if got, want := ok.Load(), int64(quotas[0].Limit); got != want {
		t.Errorf("%d of 24 requests at once were let through, want %d", got, want)
	}
}

// However many strangers come, a limit has no more rows than buckets, and they are
// spread over all of them.
func TestBucketsAreBounded(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	l := &tables.Limits{Pool: pool}
	const strangers = 3000
	var quotas []commands.Quota
	for i := range strangers {
		quotas = append(quotas, commands.Quota{Name: "one", Key: fmt.Sprint(i), Limit: strangers, Window: time.Hour})
	}
	// Two keys in one bucket are charged once: a request names each limit once.
	if _, err := l.Take(t.Context(), quotas); err != nil {
		t.Fatal(err)
	}
	var rows, least, most, halves int
	err := pool.QueryRow(t.Context(), `
		select count(*), min(n), max(n), count(*) filter (where n < 32768) from buckets`).Scan(&rows, &least, &most, &halves)
	if err != nil {
		t.Fatal(err)
	}
	// Of 3,000 in 65,536 about 68 meet another.
	if rows < strangers-150 || rows >= strangers || least < 0 || most > 65535 || halves < rows*2/5 || halves > rows*3/5 {
		t.Errorf("%d strangers are in %d buckets from %d to %d, %d of them in the lower half", strangers, rows, least, most, halves)
	}
	if _, err := pool.Exec(t.Context(), "insert into buckets (name, n) values ('one', 65536)"); err == nil {
		t.Error("there can be a bucket too many")
	}
}

// Two installations do not spread alike, so nobody can learn from one about another.
func TestBucketsAreSalted(t *testing.T) {
	t.Parallel()
	var lists [2][]int
	for i := range lists {
		pool := pgtest.Open(t)
		l := &tables.Limits{Pool: pool}
		for k := range 3 {
			if _, err := l.Take(t.Context(), []commands.Quota{{Name: "one", Key: fmt.Sprint(k), Limit: 1, Window: time.Hour}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := pool.QueryRow(t.Context(), "select array_agg(n order by n) from buckets").Scan(&lists[i]); err != nil {
			t.Fatal(err)
		}
	}
	if cmp.Equal(lists[0], lists[1]) {
		t.Errorf("both spread their keys over buckets %v", lists[0])
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	const a, b = "a.example:443", "a.example:8443"
	day := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	at := func(clock string) time.Time { // "15:04" of the day, "+15:04" of the next
		next := strings.HasPrefix(clock, "+")
		hm, err := time.Parse("15:04:05", strings.TrimPrefix(clock, "+"))
		if err != nil {
			t.Fatal(err)
		}
		moment := day.Add(time.Duration(hm.Hour())*time.Hour + time.Duration(hm.Minute())*time.Minute + time.Duration(hm.Second())*time.Second)
		if next {
			moment = moment.AddDate(0, 0, 1)
		}
		return moment
	}
	type step struct {
		now, host, shop, due string
		again                string // empty: it is its turn
	}
	for _, tt := range []struct {
		name  string
		most  int
		rests string // host a, from the start
		steps []step
	}{
		{"ten minutes apart, each host for itself", 24, "", []step{
			{"10:00:00", a, "shp_1", "10:00:00", ""},
			{"10:00:00", b, "shp_2", "10:00:00", ""},
			{"10:04:00", a, "shp_3", "10:04:00", "10:10:00"},
			{"10:10:00", a, "shp_3", "10:04:00", ""},
			{"10:10:00", b, "shp_4", "10:10:00", ""},
		}},
		{"asked again for a turn it has", 24, "", []step{
			{"10:00:00", a, "shp_1", "10:00:00", ""},
			{"10:01:00", a, "shp_1", "10:00:00", ""},
			{"10:10:30", a, "shp_2", "10:10:00", "10:11:00"}, // counted from when it went
			{"10:11:00", a, "shp_2", "10:10:00", ""},
			{"10:11:30", a, "shp_1", "10:00:00", "10:21:00"}, // and had it no more
		}},
		{"by the planned moment, then by id", 24, "", []step{
			{"10:00:00", a, "shp_9", "10:00:00", ""},
			{"10:05:00", a, "shp_3", "10:05:00", "10:10:00"},
			{"10:05:00", a, "shp_2", "10:05:00", "10:10:00"},
			{"10:06:00", a, "shp_1", "10:06:00", "10:10:00"},
			{"10:10:00", a, "shp_1", "10:06:00", "10:11:00"}, // two others are before it
			{"10:10:00", a, "shp_3", "10:05:00", "10:11:00"},
			{"10:10:01", a, "shp_2", "10:05:00", ""},
		}},
		{"one that does not come is passed over", 24, "", []step{
			{"10:00:00", a, "shp_9", "10:00:00", ""},
			{"10:05:00", a, "shp_2", "10:05:00", "10:10:00"},
			{"10:06:00", a, "shp_1", "10:06:00", "10:10:00"},
			{"10:10:00", a, "shp_1", "10:06:00", "10:11:00"},
			{"10:11:00", a, "shp_1", "10:06:00", ""},
			{"10:11:00", a, "shp_2", "10:05:00", "10:21:00"}, // which is too late for it
		}},
		{"so many a day", 2, "", []step{
			{"10:00:00", a, "shp_1", "10:00:00", ""},
			{"11:00:00", a, "shp_2", "11:00:00", ""},
			{"12:00:00", a, "shp_3", "12:00:00", "+00:00:00"},
			{"12:00:00", b, "shp_4", "12:00:00", ""},
			{"23:59:00", a, "shp_5", "23:59:00", "+00:00:00"},
			{"+00:00:00", a, "shp_5", "23:59:00", ""},
			{"+01:00:00", a, "shp_6", "+01:00:00", ""},
		}},
		{"left alone", 24, "10:30:00", []step{
			{"10:20:00", a, "shp_1", "10:20:00", "10:30:00"},
			{"10:20:00", b, "shp_2", "10:20:00", ""},
			{"10:30:00", a, "shp_1", "10:20:00", ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			turns := &tables.Turns{Pool: pgtest.Open(t), Most: tt.most, Every: 10 * time.Minute}
			if tt.rests != "" {
				for _, until := range []string{tt.rests, "10:10:00"} { // the later one counts
					if err := turns.Rest(t.Context(), a, at(until)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, s := range tt.steps {
				var want time.Time
				if s.again != "" {
					want = at(s.again)
				}
				turn := tables.Turn{Host: s.host, Shop: s.shop, Due: at(s.due), Ends: at(s.due).Add(15 * time.Minute)}
				got, err := turns.Take(t.Context(), turn, at(s.now))
				if err != nil || !got.Equal(want) {
					t.Errorf("Take(%s, %s) at %s = %s, %v, want %s", s.host, s.shop, s.now, got, err, want)
				}
				waited, err := turns.Waited(t.Context(), s.shop)
				if err != nil || waited != (s.again != "") {
					t.Errorf("Waited(%s) at %s = %t, %v, want %t", s.shop, s.now, waited, err, !waited)
				}
			}
		})
	}
}

// What is a day old is forgotten.
func TestTurnsAreForgotten(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	turns := &tables.Turns{Pool: pool, Most: 1, Every: time.Minute}
	day := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for n := range 4 {
		for _, shop := range []string{"a", "b"} {
			due := day.AddDate(0, 0, n)
			host := fmt.Sprintf("host%d.example:443", n)
			if _, err := turns.Take(t.Context(), tables.Turn{Host: host, Shop: fmt.Sprint(shop, n), Due: due, Ends: due}, due); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, table := range []string{"turns", "waiting", "paces"} {
		var kept int
		if err := pool.QueryRow(t.Context(), "select count(*) from "+table).Scan(&kept); err != nil {
			t.Fatal(err)
		}
		if kept != 2 {
			t.Errorf("%d rows of %s are left after four days, want those of two", kept, table)
		}
	}
}

// Several workers race for the turns of one host: whoever asks when, a host gets one
// task at a time, the first ones first, and so many on a day.
func TestTurnsAtOnce(t *testing.T) {
	t.Parallel()
	turns := &tables.Turns{Pool: pgtest.Open(t), Most: 5, Every: 10 * time.Minute}
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	start := now
	due := func(i int) time.Time { return start.Add(time.Duration(i%3) * time.Second) }
	var order []string
	for round := range 16 {
		var mu sync.Mutex
		var taken []string
		var wg sync.WaitGroup
		for worker := range 4 {
			for i := range 6 {
				shop := fmt.Sprintf("shp_%d_%d", i%3, i)
				if (worker+i)%2 == 0 || slices.Contains(order, shop) {
					continue
				}
				wg.Go(func() {
					// The windows are as long as the test.
					again, err := turns.Take(t.Context(), tables.Turn{Host: "a.example:443", Shop: shop, Due: due(i), Ends: start.Add(2 * time.Hour)}, now)
					if err != nil {
						t.Error(err)
					}
					if again.IsZero() {
						mu.Lock()
						defer mu.Unlock()
						taken = append(taken, shop)
					}
				})
			}
		}
		wg.Wait()
		slices.Sort(taken)
		if taken = slices.Compact(taken); len(taken) > 1 {
			t.Errorf("%v have their turn at once", taken)
		}
		order = append(order, taken...)
		// Whoever was told to let another one go first comes back after a minute.
		now = now.Add([]time.Duration{time.Minute, 9 * time.Minute}[round%2])
	}
	if len(order) != 5 {
		t.Fatalf("%d tasks had their turn, want 5: %v", len(order), order)
	}
	if rest := order[1:]; !slices.IsSorted(rest) { // the first to ask knew of no other
		t.Errorf("the tasks went as %v, want them by moment and id", order)
	}
}

func TestFetches(t *testing.T) {
	t.Parallel()
	c := newClock()
	pool := pgtest.Open(t)
	processes := []*tables.Fetches{{Pool: pool, Now: c.Now}, {Pool: pool, Now: c.Now}}
	var calls []string // what each call was told of the one before
	ask := func(process int, key, answer string) string {
		t.Helper()
		got, err := processes[process].Fetch(t.Context(), key, func(_ context.Context, last []byte) []byte {
			calls = append(calls, string(last))
			return []byte(answer)
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	for _, step := range []struct {
		pass        time.Duration
		process     int
		key, answer string
		want        string
	}{
		{0, 0, "a", "1", "1"},
		{59 * time.Second, 0, "a", "2", "1"},
		{0, 1, "a", "2", "1"},
		{0, 1, "b", "", ""},
		{time.Second, 1, "a", "3", "3"},
		{0, 0, "a", "4", "3"},
		{time.Hour, 0, "a", "5", "5"},
		{40 * 24 * time.Hour, 0, "c", "6", "6"},
	} {
		c.pass(step.pass)
		if got := ask(step.process, step.key, step.answer); got != step.want {
			t.Errorf("Fetch(%s) = %q, want %q", step.key, got, step.want)
		}
	}
	if diff := cmp.Diff([]string{"", "", "1", "3", ""}, calls); diff != "" {
		t.Errorf("what was known before each fetch (-want +got):\n%s", diff)
	}
	var keys []string
	if err := pool.QueryRow(t.Context(), "select array_agg(key order by key) from fetches").Scan(&keys); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c"}, keys); diff != "" {
		t.Errorf("kept after forty days (-want +got):\n%s", diff)
	}
}

// All who ask at once, in whatever process, get what one of them fetches.
func TestFetchesAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t)
	var fetched, asking atomic.Int64
	begun := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		f := &tables.Fetches{Pool: pool}
		for range 4 {
			wg.Go(func() {
				asking.Add(1)
				got, err := f.Fetch(t.Context(), "a", func(context.Context, []byte) []byte {
					fetched.Add(1)
					<-begun
					return []byte("once")
				})
				if err != nil || string(got) != "once" {
					t.Errorf("Fetch = %q, %v", got, err)
				}
			})
		}
	}
	for asking.Load() < 12 || fetched.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(begun)
	wg.Wait()
	if fetched.Load() != 1 {
		t.Errorf("%d fetches, want 1", fetched.Load())
	}
}

// A fetch is not given up with the one who asked first, and one who vanished in the
// middle keeps others off for a minute and no longer.
func TestFetchesOfThoseWhoVanish(t *testing.T) {
	t.Parallel()
	c := newClock()
	pool := pgtest.Open(t)
	f := &tables.Fetches{Pool: pool, Now: c.Now}
	ctx, cancel := context.WithCancel(t.Context())
	got, err := f.Fetch(ctx, "a", func(ctx context.Context, _ []byte) []byte {
		cancel()
		if ctx.Err() != nil {
			t.Errorf("the fetch ends with who asked: %v", ctx.Err())
		}
		return []byte("1")
	})
	if err != nil || string(got) != "1" {
		t.Errorf("Fetch = %q, %v, want 1", got, err)
	}
	if _, err := pool.Exec(t.Context(), "update fetches set pending = true, asked = $1", c.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	got, err = f.Fetch(t.Context(), "a", func(_ context.Context, last []byte) []byte { return append(last, '2') })
	if err != nil || string(got) != "12" {
		t.Errorf("Fetch after one that vanished = %q, %v, want 12", got, err)
	}
}

// One that lost the database over a fetch knows that nothing comes of it, and does not
// wait for that.
func TestFetchesThatLoseTheDatabase(t *testing.T) {
	t.Parallel()
	c := newClock()
	pool, killer := pgtest.Mortal(t, pgtest.Open(t))
	f := &tables.Fetches{Pool: pool, Now: c.Now}
	fetch := func(answer string) (string, error) {
		got, err := f.Fetch(t.Context(), "a", func(context.Context, []byte) []byte { return []byte(answer) })
		return string(got), err
	}
	killer.Arm(1) // the claim, and not the answer
	if got, err := fetch("1"); !killer.Disarm() || err == nil {
		t.Errorf("Fetch while the database goes away = %q, want an error", got)
	}
	began := time.Now()
	if got, err := fetch("2"); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Fetch within the minute = %q, %v, want ErrUnavailable", got, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Fetch within the minute took %s: it waited for itself", took)
	}
	for i, want := range []string{"3", "3"} {
		c.pass(time.Minute - time.Duration(i)*time.Second)
		if got, err := fetch(fmt.Sprint(3 + i)); err != nil || got != want {
			t.Errorf("Fetch behind the minute = %q, %v, want %s", got, err, want)
		}
	}
}

func TestLimitsWithoutADatabase(t *testing.T) {
	t.Parallel()
	gone := pgtest.Open(t).Config()
	gone.ConnConfig.Host = "/nonexistent"
	gone.ConnConfig.Fallbacks = nil
	away, err := pgxpool.NewWithConfig(t.Context(), gone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(away.Close)
	_, limitErr := (&tables.Limits{Pool: away}).Take(t.Context(), commands.RevokeQuotas(netip.Addr{}))
	_, turnErr := (&tables.Turns{Pool: away, Most: 1}).Take(t.Context(), tables.Turn{Host: "a.example:443", Shop: "shp_1"}, time.Now())
	restErr := (&tables.Turns{Pool: away}).Rest(t.Context(), "a.example:443", time.Now())
	_, waitErr := (&tables.Turns{Pool: away}).Waited(t.Context(), "shp_1")
	_, fetchErr := (&tables.Fetches{Pool: away}).Fetch(t.Context(), "a", func(context.Context, []byte) []byte {
		t.Error("fetched without a claim")
		return nil
	})
	for name, err := range map[string]error{"Limits": limitErr, "Turns": turnErr, "Rest": restErr, "Waited": waitErr, "Fetches": fetchErr} {
		if !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("%s without a database: %v, want ErrUnavailable", name, err)
		}
	}
}
