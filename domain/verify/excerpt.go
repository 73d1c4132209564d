package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// An Excerpt is a part of the log that is proven to stand in it, read as events. What
// it lacks may stand there all the same.
type Excerpt struct {
	Log checkpoint.Checkpoint // as of which everything is proven
	Key string                // of the log
	Ask Ask                   // what the chain says of batches; nil to take the word of the log

	tips map[ledger.Stream]tip

	consents map[string]*signedConsent
	plans    map[planKey]*shownPlan
	shops    map[string]*slotRecords
	order    []string // of shops
	seals    map[string]map[uint64]*shownRecord
	batches  map[uint64]*batchRecords
	commits  map[domain.Hash]bool // of slots, and roots of seals
	rolled   map[domain.Hash]*Rolled
	counts   struct{ records, replies, documents int }
}

type tip struct {
	version uint64
	hash    domain.Hash
}

type planKey struct {
	consent string
	day     uint32
}

// A signedConsent is a consent with what became of it.
type signedConsent struct {
	id      string
	payload consent.Payload
	sig     consent.Signature
	by      consent.Verification
	nonce   domain.Hash
	state   string
	over    time.Time
	revoked *consent.Revoked
	hosts   []hostNews
}

// A hostNews says that the proof of an endpoint came or went.
type hostNews struct {
	endpoint string
	proven   bool
	at       time.Time
}

// A slotRecords is what a slot has in the public log.
type slotRecords struct {
	committed shop.Committed
	revealed  *shop.Revealed
	data      []byte // of the reveal
	replied   *shop.Replied
	conversed *shop.Converse // what the session records say
	erasedAt  time.Time
	reply     *Reply
	session   *Conversation
	records   []shownRecord
}

func newExcerpt(c checkpoint.Checkpoint, key string) *Excerpt {
	return &Excerpt{
		Log: c, Key: key, tips: make(map[ledger.Stream]tip), consents: make(map[string]*signedConsent), plans: make(map[planKey]*shownPlan),
		shops: make(map[string]*slotRecords), seals: make(map[string]map[uint64]*shownRecord),
		batches: make(map[uint64]*batchRecords), commits: make(map[domain.Hash]bool), rolled: make(map[domain.Hash]*Rolled),
	}
}

var excerptCatalog = domain.NewCatalog(consent.Events, plan.Events, shop.Events, seal.Events, batch.Events)

// add takes in a record that stands in the log.
func (x *Excerpt) add(p *Proven) error {
	r := &p.Record
	last, known := x.tips[r.Stream]
	switch {
	case r.Version == 0, known && r.Version <= last.version:
		return bad("its version %d does not follow on the one before it in %s", r.Version, r.Stream)
	case r.Version == 1 && !p.Prev.IsZero(), known && r.Version == last.version+1 && p.Prev != last.hash:
		return bad("the hashes of %s do not lead from version %d to it", r.Stream, r.Version-1)
	}
	x.tips[r.Stream] = tip{r.Version, r.Hash}
	x.counts.records++
	e, err := excerptCatalog.Decode(r.Type, r.Data)
	if err != nil {
		return err
	}
	stream, err := x.take(e, p)
	if err == nil && stream != r.Stream {
		err = bad("what it says has its place in %s and not in %s", stream, r.Stream)
	}
	return err
}

// take takes in an event and returns the stream that has a place for it.
func (x *Excerpt) take(e domain.Event, p *Proven) (ledger.Stream, error) {
	r := &p.Record
	shown := shownRecord{Prev: p.Prev, Hash: r.Hash, Record: *r}
	switch e := e.(type) {
	case consent.Granted:
		c := &signedConsent{id: e.Consent, payload: e.Payload, sig: e.Signature, by: e.Verified, nonce: e.OwnerNonce, state: "active"}
		return consent.StreamOf(e.Payload.Agent), x.sign(c)
	case consent.Refused:
		c := &signedConsent{id: e.Consent, payload: e.Payload, sig: e.Signature, by: e.Verified, state: "refused"}
		return consent.StreamOf(e.Payload.Agent), x.sign(c)
	case consent.HostProven:
		return x.become(e.Consent, func(c *signedConsent) { c.hosts = append(c.hosts, hostNews{e.Endpoint, true, r.Time}) })
	case consent.HostLost:
		return x.become(e.Consent, func(c *signedConsent) { c.hosts = append(c.hosts, hostNews{e.Endpoint, false, r.Time}) })
	case consent.Revoked:
		return x.become(e.Consent, func(c *signedConsent) { c.state, c.over, c.revoked = "revoked", r.Time, &e })
	case consent.Ended:
		return x.become(e.Consent, func(c *signedConsent) { c.state, c.over = "ended", r.Time })
	case plan.Sealed:
		key := planKey{e.Consent, e.Day}
		if x.plans[key] != nil {
			return "", bad("%s has two plans for %s, or one after it was opened", e.Consent, domain.DayString(e.Day))
		}
		x.plans[key] = &shownPlan{Day: e.Day, Planned: true, SealedAt: r.Time, Commits: e.Commits[:], Eligible: e.Eligible}
		return plan.StreamOf(e.Consent), nil
	case plan.Opened:
		return plan.StreamOf(e.Consent), x.open(e, r.Time)
	case seal.Sealed:
		of := x.seals[e.Consent]
		if of == nil {
			of = make(map[uint64]*shownRecord)
			x.seals[e.Consent] = of
		}
		if of[e.Hour] != nil {
			return "", bad("%s has two seals of hour %d", e.Consent, e.Hour)
		}
		of[e.Hour] = &shown
		x.commits[e.Root] = true
		return seal.StreamOf(e.Consent), nil
	case shop.Committed:
		id := plan.ShopID(e.Consent, e.Day, uint32(e.Slot)) //nolint:gosec // whatever it is, the stream must have its name
		if x.shops[id] != nil {
			return "", bad("%s is committed to twice", id)
		}
		x.shops[id] = &slotRecords{committed: e, records: []shownRecord{shown}}
		x.order = append(x.order, id)
		x.commits[e.Commit] = true
		return shop.StreamOf(id), nil
	case shop.Revealed:
		return x.step(r.Stream, shown, func(s *slotRecords) bool { return s.reveal(&e, r.Data) })
	case shop.Erased:
		return x.step(r.Stream, shown, func(s *slotRecords) bool { s.erasedAt = r.Time; return s.revealed != nil })
	case batch.Event:
		return x.roll(e, r)
	}
	return "", bad("%s is not public", e.EventType())
}

func (x *Excerpt) sign(c *signedConsent) error {
	if x.consents[c.id] != nil {
		return bad("%s was signed twice", c.id)
	}
	x.consents[c.id] = c
	return nil
}

// become changes a consent that is known.
func (x *Excerpt) become(id string, change func(*signedConsent)) (ledger.Stream, error) {
	c := x.consents[id]
	if c == nil {
		return "", bad("there is no consent %s before it", id)
	}
	change(c)
	return consent.StreamOf(c.payload.Agent), nil
}

func (x *Excerpt) open(e plan.Opened, at time.Time) error {
	key := planKey{e.Consent, e.Day}
	p := x.plans[key]
	switch {
	case p == nil && e.Planned:
		return bad("a plan of %s under %s is opened that is not there", domain.DayString(e.Day), e.Consent)
	case p == nil:
		p = &shownPlan{Day: e.Day}
		x.plans[key] = p
	case p.Opened != nil || !e.Planned:
		return bad("the plan of %s under %s is opened twice, or as none", domain.DayString(e.Day), e.Consent)
	}
	p.Opened = &shownOpening{Key: e.Key, Path: e.Path, Cap: e.Cap, Count: e.Count, Eligible: e.Eligible, surfaces: e.Surfaces, notes: e.Notes}
	p.openedAt = at
	return nil
}

// step adds a record to those of a slot that is committed to.
func (x *Excerpt) step(stream ledger.Stream, r shownRecord, change func(*slotRecords) bool) (ledger.Stream, error) {
	s := x.shops[stream.ID()]
	if s == nil {
		return "", bad("nothing was committed to in %s before it", stream)
	}
	if !change(s) {
		return "", bad("%s has no place for it", stream)
	}
	s.records = append(s.records, r)
	return shop.StreamOf(stream.ID()), nil
}

func (s *slotRecords) reveal(e *shop.Revealed, data []byte) bool {
	if s.revealed != nil {
		return false
	}
	s.revealed, s.data = e, data
	for i := range e.Records {
		sealed, err := shopCatalog.Decode(e.Records[i].Type, e.Records[i].Data)
		if err != nil {
			continue // a check of the slot says so
		}
		switch sealed := sealed.(type) {
		case shop.Replied:
			s.replied = &sealed
		case shop.SessionOpened:
			s.conversed = &shop.Converse{Target: sealed.Target}
		case shop.SessionAction:
			if s.conversed != nil {
				s.conversed.Actions = append(s.conversed.Actions, sealed.Hash)
			}
		}
	}
	return true
}

// addReply takes in a reply that a slot has committed to.
func (x *Excerpt) addReply(r *Reply) error {
	s := x.shops[r.Shop]
	switch {
	case r.Body == nil || s == nil || s.replied == nil || s.reply != nil:
		return bad("a reply is there that %.60q has not committed to", r.Shop)
	case !s.replied.CommitsTo(r.Shop, r.Salt, r.Body):
		return bad("the reply of %s is not the one that was committed to", r.Shop)
	}
	s.reply = r
	x.counts.replies++
	return nil
}

// addSession takes in a session that a slot has committed to.
func (x *Excerpt) addSession(c *Conversation) error {
	s := x.shops[c.Shop]
	if s == nil || s.conversed == nil || s.session != nil {
		return bad("a session is there that %.60q has not committed to", c.Shop)
	}
	if again := c.Session.Converse(c.Shop, c.Salt); again.Target != s.conversed.Target || !slices.Equal(again.Actions, s.conversed.Actions) {
		return bad("the session of %s is not the one that was committed to", c.Shop)
	}
	s.session = c
	return nil
}

// addDocument takes in a document that a consent names by its hash.
func (x *Excerpt) addDocument(text []byte) error {
	hash := domain.Sum(text)
	for _, c := range x.consents {
		if hash == c.payload.TermsHash || hash == c.payload.PoolHash {
			x.counts.documents++
			return nil
		}
	}
	return bad("no consent names its hash %s", hash)
}

// slot returns a slot as the records of the excerpt tell of it.
func (x *Excerpt) slot(id string) (*slot, error) {
	of := x.shops[id]
	c := of.committed
	s := &slot{excerpt: x, stream: of.records}
	s.shown = shownShop{ID: id, Consent: c.Consent, Day: c.Day, Slot: c.Slot, Commit: c.Commit, Phase: phaseSealed}
	if p := x.plans[planKey{c.Consent, c.Day}]; p != nil {
		s.plan = *p
	}
	signed := x.consents[c.Consent]
	if signed == nil {
		return nil, bad("the bundle has %s and not its consent", id)
	}
	s.over = signed.over
	var err error
	if s.owner, err = signed.published(); err != nil {
		return nil, err
	}
	switch {
	case of.revealed != nil:
		s.shown.Phase = phaseRevealed
		s.shown.Revealed = of.shown()
		s.seal = x.seals[c.Consent][of.revealed.Pinned.Hour]
	case s.plan.Opened != nil:
		s.shown.Phase = phasePad
	}
	s.report = ShopReport{Shop: id, Phase: s.shown.Phase}
	return s, s.parseEvent()
}

func (s *slotRecords) shown() *shownReveal {
	r := &shownReveal{Event: s.data}
	if !s.erasedAt.IsZero() {
		r.Erased = &shownErasure{s.erasedAt}
		return r
	}
	if s.reply != nil {
		r.Reply = &shownReply{Salt: s.reply.Salt, Base64: s.reply.Body}
	}
	if s.session != nil {
		r.Session = &shownSession{Salt: s.session.Salt, Session: s.session.Session}
	}
	return r
}

// published returns the consent as the API shows it.
func (c *signedConsent) published() (p published, err error) {
	p = published{
		id: c.id, state: c.state, agent: c.payload.Agent, owner: c.payload.Owner, firstDay: c.payload.FirstDay, lastDay: c.payload.LastDay,
		payload: c.payload, signature: c.sig, verified: c.by, ownerNonce: c.nonce,
	}
	if p.raw, err = domain.Canonical(c.payload); err != nil {
		return p, err
	}
	if p.message, err = c.payload.Message(); err != nil {
		return p, err
	}
	if p.payloadHash, err = c.payload.Hash(); err != nil {
		return p, err
	}
	if e := c.revoked; e != nil {
		p.revocation = &publishedRevocation{
			message: c.payload.Revocation(e.Nonce, e.IssuedAt).Message(), nonce: e.Nonce, issuedAt: e.IssuedAt, signature: e.Signature, verified: e.Verified,
		}
	}
	return p, nil
}

// consentsOf returns the consents of an agent that were in force at some time.
func (x *Excerpt) consentsOf(ref agent.Ref) (list []*signedConsent) {
	for _, id := range x.signed() {
		if c := x.consents[id]; c.payload.Agent == ref && c.state != "refused" {
			list = append(list, c)
		}
	}
	return list
}

// signed returns the ids of all consents, in the order in which they were asked for.
func (x *Excerpt) signed() []string {
	return slices.SortedFunc(maps.Keys(x.consents), func(a, b string) int {
		return cmp.Or(x.consents[a].payload.IssuedAt.Compare(x.consents[b].payload.IssuedAt), strings.Compare(a, b))
	})
}

// days returns all days of which there is a plan or an opening.
func (x *Excerpt) days() []planKey {
	return slices.SortedFunc(maps.Keys(x.plans), func(a, b planKey) int {
		return cmp.Or(strings.Compare(a.consent, b.consent), cmp.Compare(a.day, b.day))
	})
}

func bad(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, domain.ErrInvalid)...)
}
