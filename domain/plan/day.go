package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// EligibleOf returns the list made of what the endpoints of a consent show, and notes on
// everything that is not in it. skills is the owner's allow-list; empty means all.
func EligibleOf(offers []Offer, skills []string, m Means) (Eligible, []Note) {
	l := Eligible{Endpoints: []EligibleEndpoint{}}
	notes := []Note{}
	for _, o := range offers {
		e, left := o.eligible(skills, m)
		notes = append(notes, left...)
		if len(e.Templates) > 0 {
			l.Endpoints = append(l.Endpoints, e)
		}
	}
	slices.SortFunc(l.Endpoints, func(a, b EligibleEndpoint) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(notes, compareNotes)
	return l, notes
}

// eligible returns what can be asked of an endpoint, and notes on the rest.
func (o Offer) eligible(skills []string, m Means) (e EligibleEndpoint, notes []Note) {
	e.ID = o.ID
	s := o.Surface
	switch {
	case o.LeftOut:
		return e, []Note{{Endpoint: o.ID, Reason: KindLeftOut}}
	case o.Unread:
		return e, []Note{{Endpoint: o.ID, Reason: Unread, Cause: o.Cause}}
	case len(s.Skills)+len(s.Tools)+len(s.Sales) == 0:
		return e, []Note{{Endpoint: o.ID, Reason: NothingOffered}}
	case s.Kind == task.X402 && !m.Pays:
		return e, []Note{{Endpoint: o.ID, Reason: NoPayer}}
	}
	matches := task.Match(s, skills)
	left := make(map[Reason][]string)
	for _, t := range task.Catalogue() {
		var names []string
		for _, en := range matches[t.ID] {
			names = append(names, en.Name)
		}
		switch {
		case len(names) == 0:
		case t.OnChain() && !m.ReadsChains:
			left[NoChain] = append(left[NoChain], names...)
		default:
			e.Templates = append(e.Templates, EligibleTemplate{ID: t.ID, Version: t.Version, Entries: names})
		}
	}
	slices.Sort(left[NoChain])
	left[NoChain] = slices.Compact(left[NoChain])
	for _, l := range task.LeftOver(s, skills) {
		left[Reason(l.Why)] = append(left[Reason(l.Why)], l.Name)
	}
	for _, r := range reasons {
		if names := left[r.word]; len(names) > 0 {
			notes = append(notes, noteOn(o.ID, r.word, names))
		}
	}
	return e, notes
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
