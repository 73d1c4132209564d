package verify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/plan"
)

// This file holds the checks of a slot that need the public log: what is shown stands
// there, and so does what limits it.

const unsigned = "pending until the signed log covers it"

// secret returns the secret of a day with the given key.
func (p published) secret(key domain.Hash) domain.Hash {
	entropy := []byte(p.signature)
	if !p.payload.OwnerNonceHash.IsZero() {
		entropy = p.ownerNonce[:]
	}
	return plan.DaySecret(key, entropy)
}

// keyFault says what is wrong with the key of a day that is opened.
func (p published) keyFault(d *shownPlan) string {
	signed := p.payload
	if err := plan.VerifyKey(d.Opened.Key, d.Day, signed.FirstDay, signed.ValidityDays, d.Opened.Path, signed.PlanKeyRoot); err != nil {
		return domain.Sentence(err)
	}
	return ""
}

// countFault says what is wrong with the number of tasks of a day that is opened.
func (p published) countFault(d *shownPlan) string {
	o := d.Opened
	list, err := o.Eligible.Bytes()
	switch count := plan.Count(p.secret(o.Key), o.Cap); {
	case err != nil || d.Planned && domain.Sum(list) != d.Eligible:
		return "the list of what was eligible is not the one that was sealed"
	case o.Cap < 0 || o.Cap > min(plan.Slots, p.payload.MaxPerDay) || o.Eligible.Empty() && o.Cap != 0:
		return fmt.Sprintf("the consent does not allow a cap of %d", o.Cap)
	case count != o.Count:
		return fmt.Sprintf("the key makes %d tasks of the day, and it is said to have %d", count, o.Count)
	}
	return ""
}

// sixDays is how far back tasks count against the cap of a day.
const sixDays = 6

// checkCap computes how many tasks the day could have, after those of the six days
// before under all consents of the agent.
func (s *slot) checkCap() {
	o := s.plan.Opened
	switch {
	case o == nil:
		s.say("cap", Pending, nil, "pending until the day is opened")
		return
	case s.excerpt == nil:
		s.say("cap", Pending, nil, unsigned)
		return
	}
	before, missing := s.excerpt.tasksBefore(s.owner, s.shown.Day)
	p := s.owner.payload
	in := inputs{"cap": strconv.Itoa(o.Cap), "maxPerDay": strconv.Itoa(p.MaxPerDay), "maxPerWeek": strconv.Itoa(p.MaxPerWeek), "sixDaysBefore": strconv.Itoa(before)}
	if missing != "" {
		s.say("cap", Pending, in, "pending until the signed log covers the opening of %s", missing)
		return
	}
	limit := plan.Cap(p.MaxPerDay, p.MaxPerWeek, before)
	if o.Eligible.Empty() {
		limit = 0
	}
	fault := ""
	if o.Cap != limit {
		fault = fmt.Sprintf("the consent and the %d tasks of the six days before leave a cap of %d, and the plan has %d", before, limit, o.Cap)
	}
	s.check("cap", in, fault, fmt.Sprintf("the consent and the %d tasks of the six days before leave a cap of %d", before, limit))
}

// tasksBefore returns the tasks of the six days before a day, over all consents of its
// agent, or which day of which consent is missing.
func (x *Excerpt) tasksBefore(p published, day uint32) (sum int, missing string) {
	for _, c := range x.consentsOf(p.payload.Agent) {
		for d := max(c.payload.FirstDay, day-min(sixDays, day)); d < day && d <= c.payload.LastDay; d++ {
			switch known := x.plans[planKey{c.id, d}]; {
			case known != nil && known.Opened != nil:
				sum += known.Opened.Count
			case known != nil || c.id == p.id:
				return sum, domain.DayString(d) + " under " + c.id
			}
		}
	}
	return sum, ""
}

// checkHost looks for the proof that the endpoint was the owner's.
func (s *slot) checkHost() {
	var of *signedConsent
	if s.excerpt != nil {
		of = s.excerpt.consents[s.owner.id]
	}
	switch {
	case s.sent == nil:
		s.say("host", Skipped, nil, "nothing was sent")
		return
	case of == nil:
		s.say("host", Pending, nil, unsigned)
		return
	}
	in := inputs{"endpoint": s.sent.Endpoint, "sentAt": s.sentAt.Format(time.RFC3339Nano)}
	fault := "the log has no proof that the endpoint is the owner's before it was sent there"
	for _, n := range of.hosts {
		switch {
		case n.endpoint != s.sent.Endpoint || n.at.After(s.sentAt):
		case n.proven:
			in["provenAt"], fault = n.at.Format(time.RFC3339Nano), ""
		default:
			in["lostAt"], fault = n.at.Format(time.RFC3339Nano), "the proof that the endpoint is the owner's was lost before it was sent there"
		}
	}
	s.check("host", in, fault, "the endpoint was shown to be the owner's, and nothing said otherwise before it was sent there")
}

// checkInclusion holds what is shown against the public log.
func (s *slot) checkInclusion() {
	switch {
	case s.excerptErr != nil:
		s.say("inclusion", Fail, nil, "%s", domain.Sentence(s.excerptErr))
		return
	case s.excerpt == nil:
		s.say("inclusion", Pending, nil, "pending until the log is signed")
		return
	}
	in := inputs{"log": s.excerpt.Log.Origin, "size": strconv.FormatUint(s.excerpt.Log.Size, 10)}
	fault, missing := s.included()
	switch {
	case fault != "":
		s.say("inclusion", Fail, in, "%s", fault)
	case len(missing) > 0:
		s.say("inclusion", Pending, in, "pending until the signed log covers %s", strings.Join(missing, ", "))
	default:
		s.say("inclusion", Pass, in, "consent, plan, slot and seal stand in the signed log of %d records", s.excerpt.Log.Size)
	}
}

// included says what of the slot contradicts the log, and what the log lacks.
func (s *slot) included() (fault string, missing []string) {
	x := s.excerpt
	signed := x.consents[s.owner.id]
	switch {
	case signed == nil:
		missing = append(missing, "the consent")
	case !s.owner.is(signed):
		return "the log has another consent of that id", nil
	}
	switch sealed := x.plans[planKey{s.shown.Consent, s.shown.Day}]; {
	case sealed == nil || s.plan.Opened != nil && sealed.Opened == nil:
		missing = append(missing, "the plan")
	case !s.plan.is(sealed):
		return "the log has another plan of the day", nil
	}
	of := x.shops[s.shown.ID]
	if of == nil || len(of.records) < len(s.stream) || len(s.stream) == 0 || s.event != nil && of.revealed == nil {
		missing = append(missing, "the slot")
	} else {
		for i := range s.stream {
			if s.stream[i].Hash != of.records[i].Hash {
				return "the log has another history of the slot", nil
			}
		}
	}
	if s.seal != nil && s.event != nil {
		switch sealed := x.seals[s.shown.Consent][s.event.Pinned.Hour]; {
		case sealed == nil:
			missing = append(missing, "the seal")
		case sealed.Hash != s.seal.Hash:
			return "the log has another seal of that hour", nil
		}
	}
	return "", missing
}

// is reports whether p is the consent that the log has.
func (p published) is(c *signedConsent) bool {
	hash, err := c.payload.Hash()
	return err == nil && p.payloadHash == hash && slices.Equal(p.signature, c.sig) && p.ownerNonce == c.nonce && (p.state == "refused") == (c.state == "refused")
}

// is reports whether p is the plan that the log has, as far as it is opened.
func (p *shownPlan) is(logged *shownPlan) bool {
	if p.Planned != logged.Planned || p.Planned && (!p.SealedAt.Equal(logged.SealedAt) || !slices.Equal(p.Commits, logged.Commits) || p.Eligible != logged.Eligible) {
		return false
	}
	a, b := p.Opened, logged.Opened
	if a == nil {
		return true
	}
	list, errA := a.Eligible.Bytes()
	want, errB := b.Eligible.Bytes()
	return errA == nil && errB == nil && a.Key == b.Key && slices.Equal(a.Path, b.Path) && a.Cap == b.Cap && a.Count == b.Count && slices.Equal(list, want)
}
