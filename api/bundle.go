package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// This file serves bundles: records of the public log with their proofs and the bytes
// beside the log that they commit to, to be checked without this service.

// A bundleScope says what a bundle is about: a consent, a day of it, or a slot of it.
type bundleScope struct {
	consent string
	day     uint32 // 0 for all
	shop    string // "" for all
	pinned  uint64 // the hour of the seal that the reveal of the slot names, if it is known; it only saves looking
}

func (b bundleScope) whole() bool { return b.day == 0 }

// shopScope returns the scope of a slot.
func shopScope(p projections.Shop) bundleScope {
	scope := bundleScope{consent: p.Consent, day: p.Day, shop: p.ID}
	if p.Revealed != nil && p.Revealed.Pinned.Path != nil {
		scope.pinned = p.Revealed.Pinned.Hour
	}
	return scope
}

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
			scope = shopScope(p)
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
		g, err := s.gather(ctx, v, signed.Payload, scope, s.Bodies)
		if err != nil {
			return err
		}
		return g.write(ctx, w, begin)
	})
}

// write writes a bundle of what was gathered.
func (g *gathering) write(ctx context.Context, w io.Writer, begin func(publiclog.Head)) error {
	documents, err := documentsOf(g.signed)
	if err != nil {
		return err
	}
	indexes, commits, err := g.selected(ctx)
	if err != nil {
		return err
	}
	rolled, batches, err := g.rolled(ctx, commits)
	if err != nil {
		return err
	}
	indexes = append(indexes, batches...)
	slices.Sort(indexes)
	begin(g.view.Head)
	b, err := verify.NewBundleWriter(w, g.view.Note, g.view.Key, documents, rolled)
	if err != nil {
		return err
	}
	var shown []shownSlot
	for p, err := range g.view.Proven(ctx, indexes, g.known) {
		if err != nil {
			return err
		}
		var r ledger.Record
		if err := json.Unmarshal(p.Leaf.Record, &r); err != nil {
			return fmt.Errorf("read leaf %d: %w", p.Leaf.Index, err)
		}
		if err := b.Record(verify.Proven{Index: p.Leaf.Index, Path: p.Path, Prev: p.Leaf.Prev, Record: r}); err != nil {
			return err
		}
		if shown, err = shownWith(shown, r); err != nil {
			return fmt.Errorf("read leaf %d: %w", p.Leaf.Index, err)
		}
	}
	for _, slot := range shown {
		if err := g.writeReply(ctx, b, slot); err != nil {
			return err
		}
	}
	for _, slot := range shown {
		if err := g.writeSession(ctx, b, slot); err != nil {
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
// record.
func shownWith(list []shownSlot, r ledger.Record) ([]shownSlot, error) {
	id := r.Stream.ID()
	if r.Stream != shop.StreamOf(id) {
		return list, nil
	}
	e, err := catalog().Decode(r.Type, r.Data)
	switch e := e.(type) {
	case shop.Revealed:
		list = append(list, shownSlot{
			id: id, reply: !e.Result.ReplyHash.IsZero(),
			session: slices.ContainsFunc(e.Records, func(r ledger.Record) bool { return r.Type == shop.SessionOpened{}.EventType() }),
		})
	case shop.Erased:
		list = slices.DeleteFunc(list, func(s shownSlot) bool { return s.id == id })
	}
	return list, err
}

func (g *gathering) writeReply(ctx context.Context, b *verify.BundleWriter, slot shownSlot) error {
	if !slot.reply {
		return nil
	}
	salt, body, ok, err := g.salted(ctx, shop.ReplyKey(slot.id))
	if err != nil || !ok {
		return err
	}
	return b.Reply(verify.Reply{Shop: slot.id, Salt: salt, Body: body})
}

func (g *gathering) writeSession(ctx context.Context, b *verify.BundleWriter, slot shownSlot) error {
	if !slot.session {
		return nil
	}
	salt, body, ok, err := g.salted(ctx, shop.SessionKey(slot.id))
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
func (g *gathering) salted(ctx context.Context, key string) (salt domain.Hash, body []byte, ok bool, err error) {
	raw, body, err := g.bodies.Get(ctx, key)
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
