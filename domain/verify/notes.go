package verify

import (
	"fmt"
	"slices"

	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// checkNotes looks whether a day says what was not shopped. What follows from the consent,
// the list and the tasks is computed. Whether an account could pay, or a chain be read,
// is the operator's word; why nothing was asked of a skill or tool follows from its
// surface, which a bundle does not have.
func (d *dayCheck) checkNotes() {
	fault := d.endpointsFault()
	if fault != "" {
		d.say("notes", Fail, nil, "%s", fault)
		return
	}
	var ends []shop.Result
	for _, id := range d.ids {
		of := d.excerpt.shops[id]
		switch {
		case !d.plan.Planned: // and no slots
		case of == nil:
			d.say("notes", Pending, nil, "%s", unsigned)
			return
		case of.revealed != nil:
			ends = append(ends, of.revealed.Result)
		}
	}
	o := d.plan.Opened
	said := slices.DeleteFunc(slices.Clone(o.notes), func(n plan.Note) bool { return n.Endpoint != "" })
	want := plan.NotesOnDay(d.plan.Planned, o.Eligible, o.Cap, ends)
	if !slices.EqualFunc(said, want, func(a, b plan.Note) bool { return a.Reason == b.Reason && a.Count == b.Count }) {
		fault = "what the day says of its tasks is not what became of them"
	}
	d.check("notes", nil, fault, fmt.Sprintf("the day says what was not shopped, and why, in %d notes", len(o.notes)))
}

// endpointsFault says what is wrong with the notes about endpoints.
func (d *dayCheck) endpointsFault() string {
	o, p := d.plan.Opened, d.owner.payload
	for _, n := range o.notes {
		if !slices.ContainsFunc(endpointIDs(p), func(id string) bool { return n.Endpoint == "" || n.Endpoint == id }) {
			return fmt.Sprintf("the consent has no %s, and a note is about it", n.Endpoint)
		}
	}
	for i, e := range p.Endpoints {
		id := consent.EndpointID(i)
		var reasons []plan.Reason
		for _, n := range o.notes {
			if n.Endpoint == id {
				reasons = append(reasons, n.Reason)
			}
		}
		listed := slices.ContainsFunc(o.Eligible.Endpoints, func(l plan.EligibleEndpoint) bool { return l.ID == id })
		read := slices.ContainsFunc(o.surfaces, func(s plan.Surface) bool { return s.Endpoint == id })
		has := func(r plan.Reason) bool { return slices.Contains(reasons, r) }
		switch inScope := slices.Contains(p.Kinds, e.Kind); {
		case has(plan.KindLeftOut) == inScope:
			return fmt.Sprintf("whether %s is of a kind in scope is not said as the consent has it", id)
		case inScope && has(plan.Unread) == read:
			return fmt.Sprintf("whether %s was read is said in two ways", id)
		case has(plan.NoPayer) && e.Kind != task.X402:
			return fmt.Sprintf("%s is not for sale, and is said not to be paid for", id)
		case listed && (!inScope || !read || has(plan.NothingOffered) || has(plan.NoPayer)):
			return fmt.Sprintf("%s is in the list, and is said not to be shopped", id)
		case !listed && len(reasons) == 0:
			return fmt.Sprintf("%s is not in the list, and nothing says why", id)
		}
	}
	return ""
}

func endpointIDs(p consent.Payload) []string {
	ids := make([]string, len(p.Endpoints))
	for i := range ids {
		ids[i] = consent.EndpointID(i)
	}
	return ids
}
