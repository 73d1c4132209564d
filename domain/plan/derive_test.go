package plan_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/plan"
)

// Whole days are compared with foreign vectors in package verify. The tests here
// are about the edges that those vectors do not reach.

func hash(t *testing.T, s string) domain.Hash {
	t.Helper()
	h, err := domain.ParseHash(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestNames(t *testing.T) {
	t.Parallel()
	nonce := hash(t, "92d862f8742233a1d0f37493c50e5a6d832c348cfd2a4ab4c4ec9b98a8c01445")
	id := plan.ConsentID(nonce)
	if want := "cns_evmwdbivcm7gsejx5jq2"; id != want {
		t.Errorf("ConsentID = %s, want %s", id, want)
	}
	if got, want := plan.ShopID(id, 20881, 7), "shp_evmwdbivcm7gsejx5jq2_20270304_07"; got != want {
		t.Errorf("ShopID = %s, want %s", got, want)
	}
	if got, want := plan.ShopID(id, 0, 23), "shp_evmwdbivcm7gsejx5jq2_19700101_23"; got != want {
		t.Errorf("ShopID = %s, want %s", got, want)
	}
}

// drawBig is U in the words of its definition, with numbers of any size.
func drawBig(key domain.Hash, label string, n uint64) (drawn uint64, skipped int) {
	mac := hmac.New(sha256.New, key[:])
	fmt.Fprintf(mac, "\x00\x00\x00%c%s", len(label), label)
	k := mac.Sum(nil)
	all := new(big.Int).Lsh(big.NewInt(1), 64)
	size := new(big.Int).SetUint64(n)
	limit := new(big.Int).Sub(all, new(big.Int).Mod(all, size))
	for i := 0; ; i++ {
		h := sha256.Sum256(append(slices.Clone(k), 0, 0, 0, byte(i)))
		v := new(big.Int).SetBytes(h[:8])
		if v.Cmp(limit) < 0 {
			return v.Mod(v, size).Uint64(), i
		}
	}
}

func TestU(t *testing.T) {
	t.Parallel()
	most := 0
	for _, n := range []uint64{1, 2, 3, 12, 24, 86400, 1<<32 + 1, 1 << 63, 1<<63 + 1, 3 << 62, math.MaxUint64 - 1, math.MaxUint64} {
		for i := range 64 {
			key := domain.Sum([]byte{byte(i)})
			label := fmt.Sprintf("slot:%d", i)
			want, skipped := drawBig(key, label, n)
			most = max(most, skipped)
			if got := plan.U(key, label, n); got != want {
				t.Errorf("U(%s, %q, %d) = %d, want %d after %d candidates", key, label, n, got, want, skipped)
			}
		}
	}
	if most < 3 {
		t.Errorf("at most %d candidates were skipped: the test does not reach the loop", most)
	}
}

func TestCap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                          string
		perDay, perWeek, before, want int
	}{
		{"the day binds", 12, 60, 0, 12},
		{"the week binds", 12, 60, 55, 5},
		{"the week is used up", 12, 60, 60, 0},
		{"more than the week, by an earlier consent", 12, 60, 90, 0},
		{"hard limit of a day", 1000, 1000, 0, 24},
		{"hard limit of a week", 24, 1000, 90, 10},
		{"hard limit of a week is used up", 24, 1000, 100, 0},
		{"nothing allowed", 0, 60, 0, 0},
		{"negative limits", -3, -5, 0, 0},
		{"absurd past", 24, 100, math.MaxInt, 0},
	} {
		if got := plan.Cap(test.perDay, test.perWeek, test.before); got != test.want {
			t.Errorf("Cap: %s: = %d, want %d", test.name, got, test.want)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{math.MinInt, -1, 0, 1, 6, 23, 24, 25, math.MaxInt} {
		top := max(0, min(24, limit))
		seen := make(map[int]bool)
		for i := range 500 {
			n := plan.Count(domain.Sum([]byte{byte(i), byte(i >> 8)}), limit)
			if n < 0 || n > top {
				t.Fatalf("Count with limit %d = %d", limit, n)
			}
			seen[n] = true
		}
		if len(seen) != top+1 {
			t.Errorf("Count with limit %d took %d values of %d in 500 days", limit, len(seen), top+1)
		}
	}
}

func TestRealSlots(t *testing.T) {
	t.Parallel()
	var hits [plan.Slots]int
	for i := range 200 {
		secret := domain.Sum([]byte{byte(i)})
		var before plan.SlotSet
		for n := range plan.Slots + 1 {
			slots := plan.RealSlots(secret, n)
			asc := slots.Ascending()
			if len(asc) != n || !slices.IsSorted(asc) || asc == nil {
				t.Fatalf("RealSlots(%s, %d) = %v", secret, n, asc)
			}
			for j := range slots {
				if before[j] && !slots[j] {
					t.Fatalf("RealSlots(%s, %d) lost slot %d", secret, n, j)
				}
				if slots[j] {
					hits[j]++
				}
			}
			before = slots
		}
	}
	// Each slot is real in half of the draws: 2500 of 5000.
	for j, n := range hits {
		if n < 2250 || n > 2750 {
			t.Errorf("slot %d is real %d times of 5000", j, n)
		}
	}
	if diff := cmp.Diff(plan.RealSlots(domain.Hash{}, plan.Slots), plan.RealSlots(domain.Hash{}, math.MaxInt)); diff != "" {
		t.Errorf("more tasks than slots: %s", diff)
	}
	if slots := plan.RealSlots(domain.Hash{}, -1); slots != (plan.SlotSet{}) {
		t.Errorf("RealSlots(-1) = %v", slots)
	}
}

func TestSeedFollows(t *testing.T) {
	t.Parallel()
	for i := range 200 {
		seed := domain.Sum([]byte{byte(i)})
		if at := plan.SendAt(seed, 20881); at < 20881*86400 || at >= 20882*86400 {
			t.Errorf("SendAt = %d, which is not within the day", at)
		}
		if id := plan.Identity(seed); id >= plan.Identities {
			t.Errorf("Identity = %d", id)
		}
	}
}

// Whatever is hashed changes the hash.
func TestEveryFieldIsBound(t *testing.T) {
	t.Parallel()
	base := plan.CommitFields{
		Consent: "cns_a", Day: 1, Slot: 2, Template: "unit.convert", TemplateVersion: 3, Endpoint: "ep_0",
		Identity: 4, SendAt: 5, Seed: domain.Hash{6}, AskHash: domain.Hash{7}, ExpectedHash: domain.Hash{8},
	}
	seen := map[domain.Hash]string{plan.Commit(base): "nothing"}
	for name, change := range map[string]func(*plan.CommitFields){
		"consent":  func(f *plan.CommitFields) { f.Consent = "cns_b" },
		"day":      func(f *plan.CommitFields) { f.Day++ },
		"slot":     func(f *plan.CommitFields) { f.Slot++ },
		"template": func(f *plan.CommitFields) { f.Template = "unit.convertep_0" },
		"version":  func(f *plan.CommitFields) { f.TemplateVersion++ },
		"endpoint": func(f *plan.CommitFields) { f.Endpoint = "" },
		"identity": func(f *plan.CommitFields) { f.Identity++ },
		"sendAt":   func(f *plan.CommitFields) { f.SendAt++ },
		"seed":     func(f *plan.CommitFields) { f.Seed[31]++ },
		"ask":      func(f *plan.CommitFields) { f.AskHash[31]++ },
		"expected": func(f *plan.CommitFields) { f.ExpectedHash[31]++ },
	} {
		f := base
		change(&f)
		h := plan.Commit(f)
		if other, dup := seen[h]; dup {
			t.Errorf("Commit does not tell a change of %s from one of %s", name, other)
		}
		seen[h] = name
	}
	pads := map[domain.Hash]bool{
		plan.Pad("cns_a", 1, 2, domain.Hash{3}): true,
		plan.Pad("cns_b", 1, 2, domain.Hash{3}): true,
		plan.Pad("cns_a", 2, 2, domain.Hash{3}): true,
		plan.Pad("cns_a", 1, 3, domain.Hash{3}): true,
		plan.Pad("cns_a", 1, 2, domain.Hash{4}): true,
	}
	if len(pads) != 5 {
		t.Errorf("Pad has %d values of 5", len(pads))
	}
}

func TestVerifyKey(t *testing.T) {
	t.Parallel()
	secret, nonce := domain.Hash{1}, domain.Hash{2}
	for _, days := range []uint32{1, 7, 30, 365} {
		const first = 20878
		root := plan.KeyRoot(secret, nonce, first, days)
		for _, day := range []uint32{first, first + days/2, first + days - 1} {
			key := plan.Key(secret, nonce, day)
			path := plan.KeyPath(secret, nonce, first, days, day)
			if err := plan.VerifyKey(key, day, first, days, path, root); err != nil {
				t.Errorf("VerifyKey(day %d of %d from %d) = %v", day, days, first, err)
			}
			for name, err := range map[string]error{
				"key of the next day":   plan.VerifyKey(plan.Key(secret, nonce, day+1), day, first, days, path, root),
				"another operator":      plan.VerifyKey(plan.Key(nonce, nonce, day), day, first, days, path, root),
				"the next day":          plan.VerifyKey(key, day+1, first, days, path, root),
				"same index, next days": plan.VerifyKey(key, day+1, first+1, days, path, root),
				"a longer path":         plan.VerifyKey(key, day, first, days, append(slices.Clone(path), root), root),
				"another root":          plan.VerifyKey(key, day, first, days, path, key),
				"before the validity":   plan.VerifyKey(key, first-1, first, days, path, root),
				"after the validity":    plan.VerifyKey(key, first+days, first, days, path, root),
				"a validity of no days": plan.VerifyKey(key, day, first, 0, path, root),
				"a validity in the end": plan.VerifyKey(key, day, math.MaxUint32, days, path, root),
			} {
				if !errors.Is(err, domain.ErrInvalid) {
					t.Errorf("VerifyKey with %s (day %d of %d) = %v, want ErrInvalid", name, day, days, err)
				}
			}
		}
		for _, day := range []uint32{0, first - 1, first + days, math.MaxUint32} {
			if path := plan.KeyPath(secret, nonce, first, days, day); path != nil {
				t.Errorf("KeyPath(day %d of %d) = %v, want nil", day, days, path)
			}
		}
	}
}

// The owner's part changes everything: the same key gives another day.
func TestDaySecretNeedsBothParties(t *testing.T) {
	t.Parallel()
	a := plan.DaySecret(domain.Hash{1}, []byte("signature"))
	b := plan.DaySecret(domain.Hash{1}, []byte("Signature"))
	c := plan.DaySecret(domain.Hash{2}, []byte("signature"))
	if a == b || a == c || b == c {
		t.Errorf("DaySecret = %s, %s, %s", a, b, c)
	}
}

func BenchmarkDerive(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		secret := plan.DaySecret(domain.Hash{1}, make([]byte, 65))
		plan.RealSlots(secret, plan.Count(secret, 24))
		for i := range uint32(plan.Slots) {
			seed := plan.Seed(secret, "cns_evmwdbivcm7gsejx5jq2", 20881, i)
			plan.SendAt(seed, 20881)
			plan.Identity(seed)
			plan.Pad("cns_evmwdbivcm7gsejx5jq2", 20881, i, seed)
		}
	}
}

func BenchmarkKeyRoot(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		plan.KeyRoot(domain.Hash{1}, domain.Hash{2}, 20878, 365)
	}
}
