package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/projections/publiclog"
)

// This file serves bundles: records of the public log with their proofs and the bytes
// beside the log that they commit to, to be checked without this service.

// A bundleScope says what a bundle is about: a consent, a day of it, or a slot of it.
type bundleScope struct {
	consent string
	day     uint32 // 0 for all
	shop    string // "" for all
}

func (b bundleScope) whole() bool { return b.day == 0 }

// shopScope returns the scope of a slot.
func shopScope(p ShopSummary) bundleScope { return bundleScope{p.Consent, p.Day, p.ID} }

type bundleInput struct {
	Shop    string `query:"shop" pattern:"^shp_[a-z2-7]{20}_[0-9]{8}_[0-9]{2}$" doc:"All about one slot." example:"shp_mfzwizlsmjrxg43vmvzc_20260301_07"`
	Consent string `query:"consent" pattern:"^cns_[a-z2-7]{20}$" doc:"All about a consent." example:"cns_mfzwizlsmjrxg43vmvzc"`
	Day     uint32 `query:"day" minimum:"1" maximum:"2932896" doc:"With consent: all about this day of it, a UTC day number."`
}

func (s *server) registerBundle(api huma.API) {
	op := getLedger("get-ledger-bundle", "/bundle", "Everything about a slot, a day or a consent, to be checked offline")
	op.Description = "Records of the public log, byte for byte, each with the proof that it stands in the log of the checkpoint that comes along, " +
		"and the replies, terms and identities that they commit to. It is canonical JSON (RFC 8785) with a line feed behind it: keep the bytes. " +
		"karatum-verify bundle checks it."
	op.Responses = map[string]*huma.Response{"200": {
		Description: "OK",
		Headers:     map[string]*huma.Param{"Ledger-Size": {Description: "How many public records the checkpoint covers.", Schema: &huma.Schema{Type: huma.TypeInteger}}},
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}},
	}}
	huma.Register(api, op, func(ctx context.Context, in *bundleInput) (*huma.StreamResponse, error) {
		if (in.Shop == "") == (in.Consent == "") || in.Day != 0 && in.Consent == "" {
			return nil, newProblem(ctx, http.StatusBadRequest, "ask for a shop, a consent, or a consent and a day of it")
		}
		scope := bundleScope{consent: in.Consent, day: in.Day}
		if in.Shop != "" {
			p, err := s.Reader.Shop(ctx, in.Shop)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			scope = shopScope(shopOf(p))
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humachi.Unwrap(c)
			s.serveBundle(w, r, scope)
		}}, nil
	})
}

// serveBundle answers with a bundle as it is made. What fails before its first byte is
// refused, and what fails later ends the connection.
func (s *server) serveBundle(w http.ResponseWriter, r *http.Request, scope bundleScope) {
	begun := false
	out := bufio.NewWriter(w)
	err := s.writeBundle(r.Context(), out, scope, func(h publiclog.Head) {
		begun = true
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Ledger-Size", strconv.FormatUint(h.Size, 10))
	})
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
	case !begun:
		s.refuseLedger(w, r, err)
	default:
		s.Logger.WarnContext(r.Context(), "a bundle was cut off", "requestId", requestOf(r.Context()).id, "err", err)
		panic(http.ErrAbortHandler)
	}
}

// bundle returns a bundle, nil if the log does not cover what it would be about.
func (s *server) bundle(ctx context.Context, scope bundleScope) ([]byte, error) {
	var out bytes.Buffer
	err := s.writeBundle(ctx, &out, scope, func(publiclog.Head) {})
	if errors.Is(err, domain.ErrNotFound) {
		return nil, nil
	}
	return out.Bytes(), err
}

// writeBundle writes a bundle. begin is called before the first byte. It returns
// [domain.ErrNotFound] if the signed log does not cover what the bundle would be about.
func (s *server) writeBundle(ctx context.Context, w io.Writer, scope bundleScope, begin func(publiclog.Head)) error {
	signed, err := s.Reader.Consent(ctx, scope.consent)
	if err != nil {
		return err
	}
	return s.Ledger.View(ctx, func(v *publiclog.View) error {
		return s.writeBundleOf(ctx, v, w, signed.Payload, scope, begin)
	})
}

// writeBundleOf writes a bundle as of a view of the log.
func (s *server) writeBundleOf(ctx context.Context, v *publiclog.View, w io.Writer, signed consent.Payload, scope bundleScope, begin func(publiclog.Head)) error {
	documents, err := documentsOf(signed)
	if err != nil {
		return err
	}
	indexes, commits, err := s.selected(ctx, v, scope, signed.Agent)
	if err != nil {
		return err
	}
	rolled, batches, err := s.rolled(ctx, v, commits)
	if err != nil {
		return err
	}
	indexes = append(indexes, batches...)
	slices.Sort(indexes)
	begin(v.Head)
	b, err := verify.NewBundleWriter(w, v.Note, v.Key, documents, rolled)
	if err != nil {
		return err
	}
	var shown []shownSlot
	for p, err := range v.Proven(ctx, indexes) {
		if err != nil {
			return err
		}
		r, e, err := read(p.Leaf)
		if err != nil {
			return err
		}
		if err := b.Record(verify.Proven{Index: p.Leaf.Index, Path: p.Path, Prev: p.Leaf.Prev, Record: r}); err != nil {
			return err
		}
		shown = shownWith(shown, r.Stream, e)
	}
	for _, slot := range shown {
		if err := s.writeReply(ctx, b, slot); err != nil {
			return err
		}
	}
	for _, slot := range shown {
		if err := s.writeSession(ctx, b, slot); err != nil {
			return err
		}
	}
	return b.Close()
}

// A shownSlot is a slot that is revealed, with what lies beside the log of it.
type shownSlot struct {
	id             string
	reply, session bool
}

// shownWith returns the slots whose replies and sessions are public after one more
// event.
func shownWith(list []shownSlot, stream ledger.Stream, e domain.Event) []shownSlot {
	switch e := e.(type) {
	case shop.Revealed:
		list = append(list, shownSlot{
			id: stream.ID(), reply: !e.Result.ReplyHash.IsZero(),
			session: slices.ContainsFunc(e.Records, func(r ledger.Record) bool { return r.Type == shop.SessionOpened{}.EventType() }),
		})
	case shop.Erased:
		list = slices.DeleteFunc(list, func(s shownSlot) bool { return s.id == stream.ID() })
	}
	return list
}

func (s *server) writeReply(ctx context.Context, b *verify.BundleWriter, slot shownSlot) error {
	if !slot.reply {
		return nil
	}
	salt, body, ok, err := s.salted(ctx, shop.ReplyKey(slot.id))
	if err != nil || !ok {
		return err
	}
	return b.Reply(verify.Reply{Shop: slot.id, Salt: salt, Body: body})
}

func (s *server) writeSession(ctx context.Context, b *verify.BundleWriter, slot shownSlot) error {
	if !slot.session {
		return nil
	}
	salt, body, ok, err := s.salted(ctx, shop.SessionKey(slot.id))
	if err != nil || !ok {
		return err
	}
	c := verify.Conversation{Shop: slot.id, Salt: salt}
	if err := domain.Unmarshal(body, &c.Session); err != nil {
		return fmt.Errorf("the session of %s: %w", slot.id, err)
	}
	return b.Conversation(c)
}

// salted returns a body that an event commits to, if it is there: it may be lost, or
// erased since the checkpoint.
func (s *server) salted(ctx context.Context, key string) (salt domain.Hash, body []byte, ok bool, err error) {
	raw, body, err := s.Bodies.Get(ctx, key)
	switch {
	case errors.Is(err, domain.ErrNotFound):
		return salt, nil, false, nil
	case err != nil:
		return salt, nil, false, err
	case len(raw) != len(salt):
		return salt, nil, false, fmt.Errorf("the salt of %s has %d bytes", key, len(raw))
	case body == nil:
		body = []byte{}
	}
	return domain.Hash(raw), body, true, nil
}

// documentsOf returns the terms and the identities that a consent names, as far as this
// build has them.
func documentsOf(p consent.Payload) (named [][]byte, err error) {
	own, err := ownDocuments()
	for _, text := range own {
		if hash := domain.Sum(text); hash == p.TermsHash || hash == p.PoolHash {
			named = append(named, text)
		}
	}
	return named, err
}

// ownDocuments returns the terms and the identities of this build.
var ownDocuments = sync.OnceValues(func() ([][]byte, error) {
	terms, err := domain.Canonical(terms.Current().Terms)
	if err != nil {
		return nil, err
	}
	pool, err := domain.Canonical(identity.Pool())
	return [][]byte{terms, pool}, err
})

// catalog has every event of the ledger.
var catalog = sync.OnceValue(commands.Catalog)

// read returns a leaf as a record and its event.
func read(l publiclog.Leaf) (r ledger.Record, e domain.Event, err error) {
	if err = json.Unmarshal(l.Record, &r); err == nil {
		e, err = catalog().Decode(r.Type, r.Data)
	}
	if err != nil {
		err = fmt.Errorf("read leaf %d: %w", l.Index, err)
	}
	return r, e, err
}

// Over how many days before a day its cap counts tasks.
const capDays = 6

// selected returns the leaves that a bundle holds: the consents of the agent, the plans
// in scope and those of the six days before, the slots, and their seals. Commits are
// those of the slots, and the roots of the seals that reveals name.
func (s *server) selected(ctx context.Context, v *publiclog.View, scope bundleScope, ref agent.Ref) (indexes []uint64, commits []domain.Hash, err error) {
	consents, err := s.headings.of(ctx, v, consent.StreamOf(ref))
	if err != nil {
		return nil, nil, err
	}
	covered, own := false, -1
	for i, h := range consents {
		indexes = append(indexes, h.index)
		if h.consent == scope.consent {
			covered = true
			if h.granted {
				own = i
			}
		}
	}
	if !covered {
		return nil, nil, fmt.Errorf("the signed log does not cover the consent %s yet: %w", scope.consent, domain.ErrNotFound)
	}
	if own < 0 {
		return indexes, nil, nil // it was refused
	}
	from, to := scope.day, scope.day
	if scope.whole() {
		from, to = consents[own].from, consents[own].to
	}
	var slots []ledger.Stream
	for _, c := range consents {
		if !c.granted {
			continue
		}
		plans, err := s.headings.of(ctx, v, plan.StreamOf(c.consent))
		if err != nil {
			return nil, nil, err
		}
		for _, h := range plans {
			if h.from < from-min(capDays, from) || h.from > to {
				continue
			}
			indexes = append(indexes, h.index)
			if h.planned && c.consent == scope.consent && h.from >= from {
				slots = append(slots, slotsOf(scope, h.from)...)
			}
		}
	}
	places, err := v.Indexes(ctx, slots)
	if err != nil {
		return nil, nil, err
	}
	found := slices.Sorted(joined(places))
	if scope.shop != "" && len(found) == 0 {
		return nil, nil, fmt.Errorf("the signed log does not cover the slot %s yet: %w", scope.shop, domain.ErrNotFound)
	}
	hours, commits, err := committed(ctx, v, found)
	if err != nil {
		return nil, nil, err
	}
	indexes = append(indexes, found...)
	seals, err := sealsOf(ctx, v, scope, consents[own].from, hours)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range seals {
		_, e, err := read(l)
		if err != nil {
			return nil, nil, err
		}
		sealed, ok := e.(seal.Sealed)
		if ok && hours[sealed.Hour] {
			commits = append(commits, sealed.Root)
		}
		if ok && (scope.whole() || hours[sealed.Hour]) {
			indexes = append(indexes, l.Index)
		}
	}
	return indexes, commits, nil
}

// joined yields the places of all streams.
func joined(places map[ledger.Stream][]uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, of := range places {
			for _, index := range of {
				if !yield(index) {
					return
				}
			}
		}
	}
}

// sealsOf returns seals of a consent whose first day is given: all that are in scope, and
// others maybe.
func sealsOf(ctx context.Context, v *publiclog.View, scope bundleScope, firstDay uint32, hours map[uint64]bool) ([]publiclog.Leaf, error) {
	stream := seal.StreamOf(scope.consent)
	if scope.whole() {
		return v.Stream(ctx, stream, 1, math.MaxInt32)
	}
	named := slices.Sorted(maps.Keys(hours))
	for i, hour := range named {
		version, err := verify.FindSeal(firstDay, hour, func(version uint64) (uint64, error) {
			leaves, err := v.Stream(ctx, stream, version, 1)
			if err != nil || len(leaves) == 0 {
				return 0, err
			}
			_, e, err := read(leaves[0])
			sealed, _ := e.(seal.Sealed)
			return sealed.Hour, err
		})
		if errors.Is(err, domain.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return v.Stream(ctx, stream, version, int(named[len(named)-1]-named[i])+1) //nolint:gosec // within a day and the next
	}
	return nil, nil
}

// slotsOf returns the streams of the slots of a day that are in scope.
func slotsOf(scope bundleScope, day uint32) (streams []ledger.Stream) {
	if scope.shop != "" {
		return []ledger.Stream{shop.StreamOf(scope.shop)}
	}
	for slot := range uint32(plan.Slots) {
		streams = append(streams, shop.StreamOf(plan.ShopID(scope.consent, day, slot)))
	}
	return streams
}

// committed returns the commits of slots, and the hours of the seals that their reveals
// name.
func committed(ctx context.Context, v *publiclog.View, slots []uint64) (hours map[uint64]bool, commits []domain.Hash, err error) {
	hours = make(map[uint64]bool)
	for p, err := range v.Proven(ctx, slots) {
		if err != nil {
			return nil, nil, err
		}
		_, e, err := read(p.Leaf)
		if err != nil {
			return nil, nil, err
		}
		switch e := e.(type) {
		case shop.Committed:
			commits = append(commits, e.Commit)
		case shop.Revealed:
			if e.Pinned.Path != nil {
				hours[e.Pinned.Hour] = true
			}
		}
	}
	return hours, commits, nil
}

// rolled returns the places of commits in batches that the signed log covers, and the
// leaves of what it has of these batches, of those before them, which they go on behind,
// and of the first one, which tells since when there are batches.
func (s *server) rolled(ctx context.Context, v *publiclog.View, commits []domain.Hash) (list []verify.Rolled, indexes []uint64, err error) {
	proofs, err := s.Reader.CommitProofs(ctx, commits)
	if err != nil {
		return nil, nil, err
	}
	var streams []ledger.Stream
	for _, p := range proofs {
		if p.Batch != nil {
			streams = append(streams, batch.StreamOf(p.Batch.Batch), batch.StreamOf(p.Batch.Batch-1), batch.StreamOf(1))
		}
	}
	slices.Sort(streams)
	places, err := v.Indexes(ctx, slices.Compact(streams))
	if err != nil {
		return nil, nil, err
	}
	shown := make(map[ledger.Stream][]uint64)
	for commit, p := range proofs {
		if p.Batch == nil || len(places[batch.StreamOf(p.Batch.Batch)]) == 0 {
			continue
		}
		n := p.Batch.Batch
		for _, of := range []uint64{n, n - 1, 1} {
			shown[batch.StreamOf(of)] = places[batch.StreamOf(of)]
		}
		list = append(list, verify.Rolled{Batch: n, Commit: commit, Index: p.Index, Path: p.Path})
	}
	return list, slices.Collect(joined(shown)), nil
}
