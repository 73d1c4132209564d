// Package classify tries to tell two kinds of HTTP clients apart by what a server
// sees of them: every header, its place and its spelling, the shape of a body, how
// a request came in parts, and how connections are used. It is the measure of the
// promise that a task looks like an ordinary client's request.
//
// [Tap] records what clients send, [Request.Features] lists what there is to see
// in it, and [Learners] look for a rule. Nothing here knows how the programme makes
// its requests; whoever has a better idea of what could give them away adds it to
// the features.
package classify

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// A Sample is one request whose kind is known.
type Sample struct {
	Shop     bool // of the shopper, not of an ordinary client
	Features []string
}

// A Rule says whether a request is the shopper's. It is a decision tree: a request
// that has all its features goes one way, any other the other, up to a leaf. The
// zero Rule takes every request for an ordinary one.
type Rule struct {
	features []string
	yes, no  *Rule // nil at a leaf
	shop     bool  // at a leaf
}

// Shop reports whether r takes a request with these features for the shopper's.
func (r Rule) Shop(features []string) bool {
	if r.yes == nil {
		return r.shop
	}
	for _, f := range r.features {
		if !slices.Contains(features, f) {
			return r.no.Shop(features)
		}
	}
	return r.yes.Shop(features)
}

// String says the rule in words.
func (r Rule) String() string {
	switch {
	case r.yes != nil:
		return fmt.Sprintf("if it %s: %v; else: %v", strings.Join(r.features, " and "), r.yes, r.no)
	case r.shop:
		return "shopper"
	}
	return "ordinary"
}

// A Learner makes a [Rule] from samples. The same samples make the same rule.
type Learner struct {
	Name  string
	Learn func([]Sample) Rule
}

// Learners are those of a test: the best single feature and the best pair, both
// found by trying all, and decision trees, which find what holds for a part only.
var Learners = []Learner{
	{"one feature", tree(1)},
	{"two features", pair},
	{"tree of depth 2", tree(2)},
	{"tree of depth 3", tree(3)},
}

// Accuracy is the share of samples that a rule puts where they belong, as the mean
// over the two kinds: guessing is worth one half, however many there are of each.
func Accuracy(r Rule, samples []Sample) float64 {
	var right, all [2]int
	for _, s := range samples {
		kind := 0
		if s.Shop {
			kind = 1
		}
		all[kind]++
		if r.Shop(s.Features) == s.Shop {
			right[kind]++
		}
	}
	if all[0] == 0 || all[1] == 0 {
		return 0
	}
	return (share(right[0], all[0]) + share(right[1], all[1])) / 2
}

func share(part, all int) float64 { return float64(part) / float64(all) }

// set is a set of samples by their numbers.
type set []uint64

func newSet(n int) set { return make(set, (n+63)/64) }

func (s set) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s set) size() int { return s.and(s) }

// and counts the samples in both sets.
func (s set) and(t set) (n int) {
	for i, w := range s {
		n += bits.OnesCount64(w & t[i])
	}
	return n
}

func (s set) intersect(t set) set {
	out := slices.Clone(s)
	for i := range out {
		out[i] &= t[i]
	}
	return out
}

func (s set) union(t set) set {
	out := slices.Clone(s)
	for i := range out {
		out[i] |= t[i]
	}
	return out
}

func (s set) without(t set) set {
	out := slices.Clone(s)
	for i := range out {
		out[i] &^= t[i]
	}
	return out
}

// A column is a feature and the samples that have it. Of features that the same
// samples have, the first by name stands for all.
type column struct {
	name string
	has  set
}

type table struct {
	columns     []column
	shop, other set
}

func newTable(samples []Sample) *table {
	t := &table{shop: newSet(len(samples)), other: newSet(len(samples))}
	has := make(map[string]set)
	for i, s := range samples {
		if s.Shop {
			t.shop.add(i)
		} else {
			t.other.add(i)
		}
		for _, f := range s.Features {
			if has[f] == nil {
				has[f] = newSet(len(samples))
			}
			has[f].add(i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		t.columns = append(t.columns, column{name, has[name]})
	}
	slices.SortStableFunc(t.columns, func(a, b column) int { return slices.Compare(a.has, b.has) })
	t.columns = slices.CompactFunc(t.columns, func(a, b column) bool { return slices.Equal(a.has, b.has) })
	slices.SortFunc(t.columns, func(a, b column) int { return cmp.Compare(a.name, b.name) })
	return t
}

// lean says of a set of samples how much more of the shopper's than of the others'
// it holds, as a difference of the shares of all of them.
func (t *table) lean(s set) float64 {
	return share(s.and(t.shop), max(t.shop.size(), 1)) - share(s.and(t.other), max(t.other.size(), 1))
}

// pair learns the best rule of the form: it is the one kind if it has both
// features, and the other kind if not.
func pair(samples []Sample) Rule {
	t := newTable(samples)
	var first, second string
	var best float64
	shops, others := max(t.shop.size(), 1), max(t.other.size(), 1)
	for i, a := range t.columns {
		shop, other := a.has.intersect(t.shop), a.has.intersect(t.other)
		for _, b := range t.columns[i:] {
			l := share(shop.and(b.has), shops) - share(other.and(b.has), others)
			if math.Abs(l) > math.Abs(best)+slack {
				first, second, best = a.name, b.name, l
			}
		}
	}
	return Rule{features: []string{first, second}, yes: &Rule{shop: best > 0}, no: &Rule{shop: best <= 0}}
}

// tree returns a learner of decision trees of at most the given depth, each of
// whose nodes asks for the feature that parts its samples best.
func tree(depth int) func([]Sample) Rule {
	return func(samples []Sample) Rule {
		t := newTable(samples)
		return t.grow(t.shop.union(t.other), depth)
	}
}

func (t *table) grow(s set, depth int) Rule {
	whole := t.lean(s)
	best, feature := math.Abs(whole), -1
	for i, c := range t.columns {
		yes := t.lean(s.intersect(c.has))
		if parted := math.Abs(yes) + math.Abs(whole-yes); depth > 0 && parted > best+slack {
			best, feature = parted, i
		}
	}
	if feature < 0 {
		return Rule{shop: whole > 0}
	}
	c := t.columns[feature]
	yes, no := t.grow(s.intersect(c.has), depth-1), t.grow(s.without(c.has), depth-1)
	return Rule{features: []string{c.name}, yes: &yes, no: &no}
}

// slack is what two sums of the same shares may differ by.
const slack = 1e-9
