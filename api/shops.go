package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/projections"
)

// A ShopSummary is a slot. While it is sealed only the first six fields are there,
// for a task as for a pad.
type ShopSummary struct {
	Mark
	ID      string      `json:"id" example:"shp_mfzwizlsmjrxg43vmvzc_20260301_07"`
	Consent string      `json:"consent"`
	Day     uint32      `json:"day" doc:"UTC day number: days since 1970-01-01."`
	Slot    int         `json:"slot" minimum:"0" maximum:"23"`
	Commit  domain.Hash `json:"commit"`
	Phase   string      `json:"phase" enum:"sealed,revealed,pad" doc:"A pad is a slot without a task; that is known once its day is opened."`

	Task *taskSummary `json:"task,omitempty" doc:"Once revealed."`
}

type taskSummary struct {
	Template   string    `json:"template"`
	Family     string    `json:"family"`
	Endpoint   string    `json:"endpoint"`
	SendAt     time.Time `json:"sendAt" doc:"When it was planned to be sent."`
	State      string    `json:"state" enum:"judged,missed,cancelled"`
	Outcome    string    `json:"outcome,omitempty" doc:"If it was judged."`
	LatencyMs  int64     `json:"latencyMs"`
	RevealedAt time.Time `json:"revealedAt"`
}

type shopBody struct {
	ShopSummary
	Revealed *revealedBody `json:"revealed,omitempty" doc:"Everything needed to recompute the commit and to mark the reply again."`
}

type revealedBody struct {
	Event json.RawMessage `json:"event" doc:"The data of the event shop.revealed, as hashed: seed, template, prompt, right answer, result, and all sealed records of the slot."`
	Reply replyOrNull     `json:"reply" doc:"The reply that the event commits to; null if there was none or it was erased."`

	Session *sessionBody `json:"session,omitempty" doc:"The conversation that the session events of the slot commit to. Absent if there was none, or it was lost with its worker or erased."`

	Erased *erasedBody `json:"erased,omitempty" doc:"If reply and session were erased. The event and all proofs stay as they were."`
}

type sessionBody struct {
	Salt string `json:"salt" doc:"In hex."`
	shop.Session
}

type erasedBody struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// replyOrNull is null where the pointer is nil.
type replyOrNull struct{ *replyBody }

// Schema implements [huma.SchemaProvider].
func (replyOrNull) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{r.Schema(reflect.TypeFor[replyBody](), true, "Reply"), {Type: "null"}}}
}

// MarshalJSON implements [json.Marshaler].
func (r replyOrNull) MarshalJSON() ([]byte, error) { return json.Marshal(r.replyBody) }

type replyBody struct {
	Salt   string  `json:"salt" doc:"In hex."`
	Text   *string `json:"text,omitempty" doc:"The reply, if it is UTF-8."`
	Base64 []byte  `json:"base64,omitempty" doc:"The reply, if it is not."`
}

type shopsInput struct {
	ID     string `path:"id" pattern:"^cns_[a-z2-7]{20}$" example:"cns_mfzwizlsmjrxg43vmvzc"`
	Phase  string `query:"phase" enum:"sealed,revealed,pad"`
	Cursor string `query:"cursor" maxLength:"400" doc:"From nextCursor of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"240" default:"48"`
}

type shopsOutput struct {
	Link string `header:"Link" doc:"The next page (RFC 8288)."`
	Body struct {
		Mark
		Items []ShopSummary `json:"items" doc:"By day and slot."`
		Next  string        `json:"nextCursor,omitempty" doc:"Absent on the last page."`
	}
}

type shopKey projections.ShopKey

func (k shopKey) valid() bool { return k.Slot >= 0 && k.Slot < plan.Slots }

func (s *server) registerShops(api huma.API) {
	huma.Register(api, get("list-shops", "/consents/{id}/shops", "The slots of a consent", 404), s.listShops)
	type input struct {
		ID string `path:"id" pattern:"^shp_[a-z2-7]{20}_[0-9]{8}_[0-9]{2}$" example:"shp_mfzwizlsmjrxg43vmvzc_20260301_07"`
	}
	type output struct{ Body shopBody }
	huma.Register(api, get("get-shop", "/shops/{id}", "One slot, with everything once it is revealed", 404),
		func(ctx context.Context, in *input) (*output, error) {
			b, err := s.shop(ctx, in.ID)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &output{b}, nil
		})
}

func (s *server) listShops(ctx context.Context, in *shopsInput) (*shopsOutput, error) {
	after, err := decodeCursor[shopKey](in.Cursor)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	c, err := s.Reader.Consent(ctx, in.ID)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	list, err := s.Reader.Shops(ctx, projections.ShopQuery{
		Consent: in.ID, Phase: in.Phase, After: (*projections.ShopKey)(after), Limit: in.Limit + 1,
	})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	list, next, err := pageOf(list, in.Limit, func(p projections.Shop) any { return shopKey{p.Day, p.Slot} })
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &shopsOutput{Link: nextLink("/consents/"+in.ID+"/shops", next, in.Limit, map[string]string{"phase": in.Phase})}
	out.Body.Mark = markOf(c.Demo)
	out.Body.Items, out.Body.Next = make([]ShopSummary, len(list)), next
	for i, p := range list {
		out.Body.Items[i] = shopOf(p)
	}
	return out, nil
}

func shopOf(p projections.Shop) ShopSummary {
	b := ShopSummary{
		Mark: markOf(p.Demo), ID: p.ID, Consent: p.Consent, Day: p.Day, Slot: p.Slot, Commit: p.Commit, Phase: p.Phase,
	}
	if e := p.Revealed; e != nil {
		b.Task = &taskSummary{
			Template: e.Template, Family: e.Family, Endpoint: e.Endpoint, SendAt: time.Unix(e.SendAt, 0).UTC(),
			State: string(e.Result.State), Outcome: string(e.Result.Outcome), LatencyMs: e.Result.LatencyMs, RevealedAt: p.RevealedAt,
		}
	}
	return b
}

func (s *server) shop(ctx context.Context, id string) (b shopBody, err error) {
	p, err := s.Reader.Shop(ctx, id)
	if err != nil {
		return b, err
	}
	return shopBodyOf(ctx, p, s.Bodies)
}

// shopBodyOf returns what is said of a slot, with what lies beside the log of it.
func shopBodyOf(ctx context.Context, p projections.Shop, bodies Bodies) (b shopBody, err error) {
	b.ShopSummary = shopOf(p)
	if p.Revealed == nil {
		return b, nil
	}
	b.Revealed = &revealedBody{Event: p.Data}
	if !p.ErasedAt.IsZero() {
		b.Revealed.Erased = &erasedBody{p.ErasedAt, p.Reason}
		return b, nil // whatever may still be there
	}
	salt, body, err := replyTo(ctx, p, bodies)
	if err != nil {
		return b, err
	}
	if salt != nil {
		b.Revealed.Reply.replyBody = replyOf(salt, body)
	}
	// Nor is a session of which nothing came to stand on record.
	opened := (shop.SessionOpened{}).EventType()
	if !slices.ContainsFunc(p.Revealed.Records, func(r ledger.Record) bool { return r.Type == opened }) {
		return b, nil
	}
	salt, body, err = bodyOf(ctx, bodies, shop.SessionKey(p.ID))
	if err != nil || salt == nil {
		return b, err
	}
	b.Revealed.Session = &sessionBody{Salt: hex.EncodeToString(salt)}
	return b, domain.Unmarshal(body, &b.Revealed.Session.Session)
}

// replyTo returns the reply to a task that was revealed and not erased since, nothing if
// there is none. Before that a body is nobody's business, and after it none may be left.
func replyTo(ctx context.Context, p projections.Shop, bodies Bodies) (salt, body []byte, err error) {
	if p.Revealed == nil || !p.ErasedAt.IsZero() || p.Revealed.Result.ReplyHash.IsZero() {
		return nil, nil, nil
	}
	return bodyOf(ctx, bodies, shop.ReplyKey(p.ID))
}

// bodyOf returns what lies beside the log, nothing if it is lost.
func bodyOf(ctx context.Context, bodies Bodies, key string) (salt, body []byte, err error) {
	salt, body, err = bodies.Get(ctx, key)
	if errors.Is(err, domain.ErrNotFound) {
		return nil, nil, nil
	}
	return salt, body, err
}

func replyOf(salt, body []byte) *replyBody {
	b := &replyBody{Salt: hex.EncodeToString(salt)}
	if utf8.Valid(body) {
		text := string(body)
		b.Text = &text
	} else {
		b.Base64 = body
	}
	return b
}
