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
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/verify"
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
	signed, err := s.consent(ctx, "cns_"+unprefixed)
	if err != nil {
		return nil, err
	}
	body, err := s.shop(ctx, id)
	if err != nil {
		return nil, err
	}
	day, err := s.Reader.Plan(ctx, body.Consent, body.Day)
	if err != nil {
		return nil, err
	}
	var a verify.Answers
	for _, part := range []struct {
		into *[]byte
		of   any
	}{{&a.Consent, signed}, {&a.Day, planOf(day)}, {&a.Shop, body}, {&a.Stream, leavesOf(nil, publiclog.Head{}).Body}} {
		if *part.into, err = json.Marshal(part.of); err != nil {
			return nil, err
		}
	}
	err = s.Ledger.View(ctx, func(v *publiclog.View) error { return s.answerFromLog(ctx, v, &a, signed, shopScope(body.ShopSummary)) })
	if err != nil && !errors.Is(err, domain.ErrNotFound) { // nothing is signed yet
		return nil, err
	}
	return verify.Shop(a)
}

// answerFromLog adds what the public log answers about a slot.
func (s *server) answerFromLog(ctx context.Context, v *publiclog.View, a *verify.Answers, signed consentBody, scope bundleScope) error {
	leaves, err := v.Stream(ctx, shop.StreamOf(scope.shop), 1, 10)
	if err != nil {
		return err
	}
	if a.Stream, err = json.Marshal(leavesOf(leaves, publiclog.Head{}).Body); err != nil {
		return err
	}
	a.Seal, err = verify.SealOf(*a, func(version uint64) ([]byte, error) {
		leaves, err := v.Stream(ctx, seal.StreamOf(scope.consent), version, 1)
		if err != nil || len(leaves) == 0 {
			return nil, err
		}
		return json.Marshal(recordOf(leaves[0]))
	})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := s.writeBundleOf(ctx, v, &out, signed.Payload, scope, func(publiclog.Head) {}); err != nil {
		return err // [domain.ErrNotFound] if the log does not cover the slot yet
	}
	a.Bundle = out.Bytes()
	return nil
}

// verifyDay checks a day from the very bundle that a stranger would ask for.
func (s *server) verifyDay(ctx context.Context, consent string, day uint32) (*verify.DayReport, error) {
	c, err := s.Reader.Consent(ctx, consent)
	if err != nil {
		return nil, err
	}
	if !c.Payload.Covers(day) {
		return nil, fmt.Errorf("%s does not cover day %d: %w", consent, day, domain.ErrNotFound)
	}
	data, err := s.bundle(ctx, bundleScope{consent: consent, day: day})
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, fmt.Errorf("the signed log does not cover the consent %s yet: %w", consent, domain.ErrNotFound)
	}
	return verify.DayOf(data, consent, day)
}
