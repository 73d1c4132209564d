package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// EligibleOf returns the list made of what the endpoints in scope show, and notes
// for people about skills that no honest task exists for. skills is the owner's
// allow-list; empty means all.
func EligibleOf(offers []Offer, skills []string) (Eligible, []string) {
	versions := make(map[string]uint32)
	for _, t := range task.Catalogue() {
		versions[t.ID] = t.Version
	}
	l := Eligible{Endpoints: []EligibleEndpoint{}}
	notes := []string{}
	for _, o := range offers {
		matches := task.Match(o.Surface, skills)
		e := EligibleEndpoint{ID: o.ID}
		for id, entries := range matches {
			t := EligibleTemplate{ID: id, Version: versions[id]}
			for _, en := range entries {
				t.Entries = append(t.Entries, en.Name)
			}
			slices.Sort(t.Entries)
			t.Entries = slices.Compact(t.Entries)
			if len(t.Entries) > 0 {
				e.Templates = append(e.Templates, t)
			}
		}
		notes = append(notes, unmatched(o)...)
		slices.SortFunc(e.Templates, func(a, b EligibleTemplate) int { return strings.Compare(a.ID, b.ID) })
		if len(e.Templates) > 0 {
			l.Endpoints = append(l.Endpoints, e)
		}
	}
	slices.SortFunc(l.Endpoints, func(a, b EligibleEndpoint) int { return strings.Compare(a.ID, b.ID) })
	return l, notes
}

// unmatched looks past the owner's allow-list: a skill that the owner left out is
// not one without a task.
func unmatched(o Offer) (notes []string) {
	used := make(map[string]bool)
	for _, entries := range task.Match(o.Surface, nil) {
		for _, en := range entries {
			used[en.Name] = true
		}
	}
	shown := make([]string, 0, len(o.Surface.Skills)+len(o.Surface.Tools))
	for _, s := range o.Surface.Skills {
		shown = append(shown, cmp.Or(s.ID, s.Name))
	}
	for _, t := range o.Surface.Tools {
		shown = append(shown, t.Name)
	}
	var names []string
	for _, name := range shown {
		if !used[name] {
			names = append(names, named(name))
		}
	}
	if n := len(names); n > 0 {
		more := ""
		if n > maxNames {
			names, more = names[:maxNames], fmt.Sprintf(" and %d more", n-maxNames)
		}
		notes = append(notes, fmt.Sprintf("%s: %d of %d skills or tools have no task and are not shopped: %s%s",
			o.ID, n, len(shown), strings.Join(names, ", "), more))
	}
	return notes
}

// Bounds on what a note repeats of an agent's own words.
const (
	maxNames = 12
	maxName  = 48 // bytes
)

// named quotes a name that an agent made up: one line of ASCII, of bounded length.
func named(name string) string {
	if len(name) > maxName {
		name = name[:maxName] + "…"
	}
	return strconv.QuoteToASCII(name)
}

// A Day is a day's plan as both the service and a verifier compute it.
type Day struct {
	Consent string
	Day     uint32
	Secret  domain.Hash // mixes both parties' parts
	Cap     int
	Count   int
	Slots   [Slots]Slot
}

// A Slot is one of the 24 places of a day.
type Slot struct {
	Index    int
	Real     bool
	Seed     domain.Hash
	SendAt   int64 // Unix seconds
	Identity uint32
	Commit   domain.Hash

	// For a real slot:
	Choice Choice
	Entry  task.Entry
	Task   task.Task
}

// Compute derives the day from its secret. limit is the most tasks that the limits
// allow, as [Cap] returns it; an empty list makes it 0. It returns
// [domain.ErrInvalid] if l names what entries do not hold.
func Compute(consent string, day uint32, secret domain.Hash, limit int, l Eligible, entries Entries) (Day, error) {
	if l.Empty() {
		limit = 0
	}
	d := Day{Consent: consent, Day: day, Secret: secret, Cap: limit, Count: Count(secret, limit)}
	picked := RealSlots(secret, d.Count)
	for i := range d.Slots {
		seed := Seed(secret, consent, day, uint32(i))
		s := Slot{Index: i, Real: picked[i], Seed: seed, SendAt: SendAt(seed, day), Identity: Identity(seed)}
		if !s.Real {
			s.Commit = Pad(consent, day, uint32(i), seed)
			d.Slots[i] = s
			continue
		}
		s.Choice = l.Choose(seed)
		var err error
		if s.Task, s.Entry, err = entries.Make(s.Choice, seed); err != nil {
			return Day{}, err
		}
		s.Commit = Commit(CommitFields{
			Consent: consent, Day: day, Slot: uint32(i),
			Template: s.Choice.Template, TemplateVersion: s.Choice.Version, Endpoint: s.Choice.Endpoint,
			Identity: s.Identity, SendAt: s.SendAt, Seed: seed,
			AskHash: s.Task.Ask.Hash(), ExpectedHash: ExpectedHash(s.Task),
		})
		d.Slots[i] = s
	}
	return d, nil
}

// ExpectedHash returns what a commit says of the right answer: its hash, or how it
// will be found if it is not known yet.
func ExpectedHash(t task.Task) domain.Hash {
	if t.Deferred != nil {
		return shop.DeferredHash(t.Deferred.Rule, t.Deferred.Depth)
	}
	return t.Expected.Hash()
}

// Commits returns the 24 commits in the order of the slots.
func (d Day) Commits() (commits [Slots]domain.Hash) {
	for i, s := range d.Slots {
		commits[i] = s.Commit
	}
	return commits
}

// Entries resolves the names of a list to what takes the tasks.
type Entries []Taker

// A Taker is an entry that can take the tasks of a template.
type Taker struct {
	Endpoint string     `json:"endpoint"`
	Template string     `json:"template"`
	Entry    task.Entry `json:"entry"`
}

// EntriesOf returns what the endpoints in scope show that a task can be put to, in
// the order of the offers.
func EntriesOf(offers []Offer, skills []string) Entries {
	all := Entries{}
	for _, o := range offers {
		matches := task.Match(o.Surface, skills)
		for _, id := range slices.Sorted(maps.Keys(matches)) {
			for _, en := range matches[id] {
				all = append(all, Taker{o.ID, id, en})
			}
		}
	}
	return all
}

// Make returns the task of a choice and the entry that takes it. It returns
// [domain.ErrInvalid] for a choice that e does not hold.
func (e Entries) Make(c Choice, seed domain.Hash) (task.Task, task.Entry, error) {
	for _, t := range e {
		if t.Endpoint == c.Endpoint && t.Template == c.Template && t.Entry.Name == c.Entry {
			made, err := task.Generate(c.Template, c.Version, seed, t.Entry)
			return made, t.Entry, err
		}
	}
	return task.Task{}, task.Entry{}, fmt.Errorf("the list names %q for %s at %s, which the surface does not show: %w",
		c.Entry, c.Template, c.Endpoint, domain.ErrInvalid)
}
