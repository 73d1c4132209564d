package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// A verifyBody is what came of checking a slot, as [verify.Shop] says.
type verifyBody struct {
	Shop    string        `json:"shopId"`
	Phase   string        `json:"phase" enum:"sealed,revealed,pad"`
	Verdict string        `json:"verdict" enum:"ok,pending,fail" doc:"fail if one check fails, else pending if one is."`
	Checks  []verifyCheck `json:"checks"`
}

// A verifyDayBody is what came of checking a day, as [verify.Excerpt.Day] says.
type verifyDayBody struct {
	Consent string        `json:"consent"`
	Day     uint32        `json:"day" doc:"UTC day number: days since 1970-01-01."`
	Phase   string        `json:"phase" enum:"absent,sealed,opened" doc:"absent as long as the signed log has no plan of it."`
	Verdict string        `json:"verdict" enum:"ok,pending,fail" doc:"fail if one check fails, else pending if one is."`
	Checks  []verifyCheck `json:"checks"`
}

func checksOf(list []verify.SlotCheck) []verifyCheck {
	checks := make([]verifyCheck, len(list))
	for i, c := range list {
		checks[i] = verifyCheck{c.ID, string(c.Status), c.Detail, c.Inputs}
	}
	return checks
}

type verifyCheck struct {
	ID     string            `json:"id" example:"commit"`
	Status string            `json:"status" enum:"pass,fail,pending,skipped"`
	Detail string            `json:"detail"`
	Inputs map[string]string `json:"inputs" doc:"What it was checked from. karatum-verify shop does so again, from public answers."`
}

func (s *server) registerVerify(api huma.API) {
	type input struct {
		ID string `path:"id" pattern:"^shp_[a-z2-7]{20}_[0-9]{8}_[0-9]{2}$" example:"shp_mfzwizlsmjrxg43vmvzc_20260301_07"`
	}
	type output struct{ Body verifyBody }
	huma.Register(api, get("verify-shop", "/shops/{id}/verify", "Every check of a slot, made now from what is public", 404),
		func(ctx context.Context, in *input) (*output, error) {
			r, err := s.verifyShop(ctx, in.ID)
			if err != nil {
				return nil, s.failLedger(ctx, err)
			}
			return &output{verifyBody{r.Shop, r.Phase, string(r.Verdict), checksOf(r.Checks)}}, nil
		})

	type dayInput struct {
		ID  string `path:"id" pattern:"^cns_[a-z2-7]{20}$" example:"cns_mfzwizlsmjrxg43vmvzc"`
		Day uint32 `path:"day" minimum:"1" maximum:"2932896" doc:"UTC day number: days since 1970-01-01."`
	}
	type dayOutput struct{ Body verifyDayBody }
	huma.Register(api, get("verify-day", "/consents/{id}/days/{day}/verify", "Every check of a day of a consent, made now from the signed log", 404),
		func(ctx context.Context, in *dayInput) (*dayOutput, error) {
			r, err := s.verifyDay(ctx, in.ID, in.Day)
			if err != nil {
				return nil, s.failLedger(ctx, err)
			}
			return &dayOutput{verifyDayBody{r.Consent, r.Day, r.Phase, string(r.Verdict), checksOf(r.Checks)}}, nil
		})
}

// verifyShop checks a slot from the very answers that a stranger would ask for. What comes
// from the public log is of one view of it.
func (s *server) verifyShop(ctx context.Context, id string) (*verify.ShopReport, error) {
	unprefixed, _, _ := strings.Cut(strings.TrimPrefix(id, "shp_"), "_")
	signed, err := s.signedConsent(ctx, "cns_"+unprefixed)
	if err != nil {
		return nil, err
	}
	p, day, err := s.Reader.ShopAndPlan(ctx, id)
	if err != nil {
		return nil, err
	}
	bodies := &remembered{Bodies: s.Bodies}
	body, err := shopBodyOf(ctx, p, bodies)
	if err != nil {
		return nil, err
	}
	a := verify.Answers{Consent: signed.answer}
	for _, part := range []struct {
		into *[]byte
		of   any
	}{{&a.Day, planOf(day)}, {&a.Shop, body}, {&a.Stream, leavesOf(nil, publiclog.Head{}).Body}} {
		if *part.into, err = json.Marshal(part.of); err != nil {
			return nil, err
		}
	}
	err = s.Ledger.View(ctx, func(v *publiclog.View) error {
		g, err := s.gather(ctx, v, signed.payload, shopScope(p), bodies)
		if err != nil {
			return err
		}
		return g.answer(ctx, &a, p)
	})
	if err != nil && !errors.Is(err, domain.ErrNotFound) { // nothing is signed yet
		return nil, err
	}
	return verify.Shop(a)
}

// answer adds what the public log answers about a slot.
func (g *gathering) answer(ctx context.Context, a *verify.Answers, p projections.Shop) error {
	leaves, err := g.slots(ctx, []ledger.Stream{shop.StreamOf(p.ID)})
	if err != nil {
		return err
	}
	if a.Stream, err = json.Marshal(leavesOf(leaves, publiclog.Head{}).Body); err != nil {
		return err
	}
	if p.Revealed != nil {
		a.Seal, err = verify.PinnedSeal(g.signed.FirstDay, p.Day, p.Revealed.Pinned, func(version uint64) ([]byte, error) {
			leaves, err := g.seal(ctx, version)
			if err != nil || len(leaves) == 0 {
				return nil, err
			}
			return json.Marshal(recordOf(leaves[0]))
		})
		if err != nil {
			return err
		}
	}
	var out bytes.Buffer
	if err := g.write(ctx, &out, func(publiclog.Head) {}); err != nil {
		return err // [domain.ErrNotFound] if the log does not cover the slot yet
	}
	a.Bundle = out.Bytes()
	return nil
}

// keptConsents is of how many consents answers are kept for the slots under them.
const keptConsents = 64

// A signedConsent is the answer about a consent, as of a state of the read models.
type signedConsent struct {
	asOf    projections.AsOf
	payload consent.Payload
	answer  []byte
}

// signedConsent returns the answer about a consent. All slots under it share one for as
// long as nothing is recorded.
func (s *server) signedConsent(ctx context.Context, id string) (signedConsent, error) {
	before, err := s.lookout.AsOf(ctx)
	if err != nil {
		return signedConsent{}, err
	}
	if k, ok := s.consents.Get(id); ok && k.asOf == before {
		return k, nil
	}
	b, err := s.consent(ctx, id)
	if err != nil {
		return signedConsent{}, err
	}
	k := signedConsent{asOf: before, payload: b.Payload}
	if k.answer, err = json.Marshal(b); err != nil {
		return k, err
	}
	after, err := s.lookout.AsOf(ctx)
	if err == nil && after == before {
		s.consents.Add(id, k)
	}
	return k, err
}

// verifyDay checks a day from the very bundle that a stranger would ask for.
func (s *server) verifyDay(ctx context.Context, id string, day uint32) (*verify.DayReport, error) {
	c, err := s.Reader.Consent(ctx, id)
	if err != nil {
		return nil, err
	}
	if !c.Payload.Covers(day) {
		return nil, fmt.Errorf("%s does not cover day %d: %w", id, day, domain.ErrNotFound)
	}
	data, err := s.bundle(ctx, bundleScope{consent: id, day: day})
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, fmt.Errorf("the signed log does not cover the consent %s yet: %w", id, domain.ErrNotFound)
	}
	return verify.DayOf(data, id, day)
}
