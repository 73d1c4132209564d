package meter_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/commands/meter"
)

func quota(key string, limit int) commands.Quota {
	return commands.Quota{Name: "read", Key: key, Limit: limit, Window: time.Minute}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := start
	m := meter.New(func() time.Time { return now })
	for _, step := range []struct {
		name string
		at   time.Duration
		want commands.Spent
	}{
		{"first", 5 * time.Second, commands.Spent{OK: true, Left: []commands.Left{{Remaining: 2, Reset: 65 * time.Second}}}},
		{"in another part", 25 * time.Second, commands.Spent{OK: true, Left: []commands.Left{{Remaining: 1, Reset: 45 * time.Second}}}},
		{"last", 25 * time.Second, commands.Spent{OK: true, Left: []commands.Left{{Remaining: 0, Reset: 45 * time.Second}}}},
		{"one too many", 69 * time.Second, commands.Spent{Left: []commands.Left{{Remaining: 0, Reset: time.Second}}}},
		{"the first is forgotten", 70 * time.Second, commands.Spent{OK: true, Left: []commands.Left{{Remaining: 0, Reset: 20 * time.Second}}}},
		{"the clock goes back", 0, commands.Spent{Left: []commands.Left{{Remaining: 0, Reset: 90 * time.Second}}}},
		{"all are forgotten", time.Hour, commands.Spent{OK: true, Left: []commands.Left{{Remaining: 2, Reset: 70 * time.Second}}}},
	} {
		now = start.Add(step.at)
		got, err := m.Take(t.Context(), []commands.Quota{quota("192.0.2.1", 3)})
		if diff := cmp.Diff(step.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", step.name, err, diff)
		}
	}
}

// A quota that is used up keeps the others from being charged.
func TestMeterChargesAllOrNone(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := meter.New(func() time.Time { return start })
	other := commands.Quota{Name: "all", Key: "all", Limit: 10, Window: time.Hour}
	for i := range 5 {
		got, err := m.Take(t.Context(), []commands.Quota{quota("192.0.2.1", 2), other})
		want := commands.Left{Remaining: 10 - min(i+1, 2), Reset: 70 * time.Minute}
		if err != nil || got.OK != (i < 2) || got.Left[1] != want {
			t.Errorf("request %d: %+v, %v; want the other quota at %+v", i, got, err, want)
		}
	}
}

func TestMeterIsExactForMany(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := meter.New(func() time.Time { return start })
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if s, err := m.Take(t.Context(), []commands.Quota{quota("192.0.2.1", 300)}); err == nil && s.OK {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 300 {
		t.Errorf("%d of 800 requests passed a limit of 300", passed.Load())
	}
}
