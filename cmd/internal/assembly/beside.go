package assembly

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shop"
)

// A beside holds what lies beside the ledger against the events that commit to it: each
// reply and each session has the hash that was recorded and is there until it is erased,
// each surface has the hash that is its name, and each reply of an owner to a finding is
// what was committed to and is there until it is erased.
type beside struct {
	replies  map[string]shop.Replied   // by shop
	sessions map[string]*shop.Converse // by shop
	surfaces map[domain.Hash]bool
	texts    map[domain.Hash]string // of replies to findings: the finding, by commitment
	filed    map[string]domain.Hash // the other way round
}

func newBeside() *beside {
	return &beside{
		replies: make(map[string]shop.Replied), sessions: make(map[string]*shop.Converse), surfaces: make(map[domain.Hash]bool),
		texts: make(map[domain.Hash]string), filed: make(map[string]domain.Hash),
	}
}

// Types of events that commit to bodies.
var committing = map[domain.Type]bool{
	shop.Replied{}.EventType(): true, shop.SessionOpened{}.EventType(): true, shop.SessionAction{}.EventType(): true,
	shop.Erased{}.EventType(): true, agent.SurfaceObserved{}.EventType(): true,
	finding.ReplyFiled{}.EventType(): true, finding.ReplyErased{}.EventType(): true,
}

// add takes note of what a record commits to.
func (b *beside) add(catalog domain.Catalog, r *ledger.Record) error {
	if !committing[r.Type] {
		return nil
	}
	e, err := catalog.Decode(r.Type, r.Data)
	if err != nil {
		return err
	}
	id := r.Stream.ID()
	switch e := e.(type) {
	case shop.Replied:
		b.replies[id] = e
	case shop.SessionOpened:
		b.sessions[id] = &shop.Converse{Target: e.Target}
	case shop.SessionAction:
		if c := b.sessions[id]; c != nil {
			c.Actions = append(c.Actions, e.Hash)
		}
	case shop.Erased:
		delete(b.replies, id)
		delete(b.sessions, id)
	case agent.SurfaceObserved:
		b.surfaces[e.Surface] = true
	case finding.ReplyFiled:
		of := finding.ID(e.Consent, e.Look)
		b.texts[e.Commitment], b.filed[of] = of, e.Commitment
	case finding.ReplyErased:
		delete(b.texts, b.filed[finding.ID(e.Consent, e.Look)])
	}
	return nil
}

// check returns an error matching [ledger.ErrDamaged] that names the first body that is
// not what the ledger commits to, or not there.
func (b *beside) check(ctx context.Context, log ledger.Log, bodies *tables.Bodies) error {
	if err := bodies.Each(ctx, shop.ReplyKey(""), b.checkReply); err != nil {
		return err
	}
	if err := bodies.Each(ctx, shop.SessionKey(""), b.checkSession); err != nil {
		return err
	}
	const surface = "surface/"
	if err := bodies.Each(ctx, surface, func(key string, _, body []byte) error {
		hash := domain.Sum(body)
		if key != surface+hash.String() {
			return fmt.Errorf("the body %s has the hash %s and is %w", key, hash, ledger.ErrDamaged)
		}
		delete(b.surfaces, hash)
		return nil
	}); err != nil {
		return err
	}
	if err := bodies.Each(ctx, finding.ReplyPrefix, b.checkText); err != nil {
		return err
	}
	for hash := range b.surfaces {
		return fmt.Errorf("the surface %s, which an event names, is not there: the bodies are %w", hash, ledger.ErrDamaged)
	}
	for _, id := range slices.Sorted(maps.Keys(b.replies)) {
		if err := missing(ctx, log, shop.StreamOf(id), erased, "the reply of "+id); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.sessions)) {
		if err := missing(ctx, log, shop.StreamOf(id), erased, "the session of "+id); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Values(b.texts)) {
		consentID, look, err := finding.ParseID(id)
		if err != nil {
			return err
		}
		gone := func(r ledger.Record) bool {
			var e finding.ReplyErased
			return r.Type == e.EventType() && domain.Unmarshal(r.Data, &e) == nil && e.Look == look
		}
		if err := missing(ctx, log, finding.StreamOf(consentID), gone, "the reply to finding "+id); err != nil {
			return err
		}
	}
	return nil
}

// erased reports whether a record of a shop says that what lay beside it is gone.
func erased(r ledger.Record) bool { return r.Type == (shop.Erased{}).EventType() }

// checkReply compares a reply. One that no event has committed to is of a worker that
// was gone too early.
func (b *beside) checkReply(key string, salt, body []byte) error {
	id := strings.TrimPrefix(key, shop.ReplyKey(""))
	e, ok := b.replies[id]
	if !ok {
		return nil
	}
	if len(salt) != len(domain.Hash{}) || !e.CommitsTo(id, domain.Hash(salt), body) {
		return fmt.Errorf("the reply of %s is not the one that was committed to: the bodies are %w", id, ledger.ErrDamaged)
	}
	delete(b.replies, id)
	return nil
}

// checkText compares a reply to a finding. One that no event has committed to was not
// recorded in the end.
func (b *beside) checkText(key string, salt, body []byte) error {
	commitment, err := domain.ParseHash(strings.TrimPrefix(key, finding.ReplyPrefix))
	if err != nil {
		return fmt.Errorf("%q is no key of a reply to a finding: the bodies are %w", key, ledger.ErrDamaged)
	}
	id, ok := b.texts[commitment]
	if ok && (len(salt) != len(domain.Hash{}) || finding.Commitment(id, domain.Hash(salt), string(body)) != commitment) {
		return fmt.Errorf("the reply to finding %s is not the one that was committed to: the bodies are %w", id, ledger.ErrDamaged)
	}
	delete(b.texts, commitment)
	return nil
}

func (b *beside) checkSession(key string, salt, body []byte) error {
	id := strings.TrimPrefix(key, shop.SessionKey(""))
	c := b.sessions[id]
	if c == nil {
		return nil
	}
	var s shop.Session
	err := domain.Unmarshal(body, &s)
	if err == nil && len(salt) == len(domain.Hash{}) {
		if shown := s.Converse(id, domain.Hash(salt)); shown.Target == c.Target && slices.Equal(shown.Actions, c.Actions) {
			delete(b.sessions, id)
			return nil
		}
	}
	return fmt.Errorf("the session of %s is not the one that was committed to: the bodies are %w", id, ledger.ErrDamaged)
}

// missing returns an error for a body that is not there, unless a record of its stream
// says that it was erased while the ledger was read.
func missing(ctx context.Context, log ledger.Log, s ledger.Stream, gone func(ledger.Record) bool, what string) error {
	for r, err := range log.Stream(ctx, s, 0) {
		if err != nil {
			return err
		}
		if gone(r) {
			return nil
		}
	}
	return fmt.Errorf("%s, which an event commits to, is not there: the bodies are %w", what, ledger.ErrDamaged)
}
