package explorer

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/projections"
)

// What owners do on pages, they do in two steps without a script: a form asks for the
// message, and another one takes the signature, which is made elsewhere. The text that
// was signed is never taken back from a form: browsers change its line ends. What makes
// it again is, and the challenge vouches for that.

// maxForm bounds the body of a form.
const maxForm = 64 << 10

// form reads a form that came from a page of ours.
func (p *Pages) form(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	if err := p.sameSite.Check(r); err != nil {
		return nil, fmt.Errorf("this form was sent from another site; open the page here and send it again: %w", domain.ErrForbidden)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			return nil, fmt.Errorf("the form is longer than %d KiB: %w", maxForm>>10, domain.ErrInvalid)
		}
		return nil, fmt.Errorf("the form cannot be read; go back and send it again: %w", domain.ErrInvalid)
	}
	return r.PostForm, nil
}

// An optInForm is what an owner chose, as it was typed.
type optInForm struct {
	Agent       string
	Endpoints   []typedEndpoint
	Skills      string
	MaxPerDay   string
	MaxPerWeek  string
	DelayHours  string
	Days        string
	Payments    bool
	MaxPerTask  string
	MaxPerMonth string
	NonceHash   string
}

type typedEndpoint struct{ Kind, URL string }

// emptyOptIn is the form before anything is typed.
func emptyOptIn() optInForm {
	f := optInForm{MaxPerDay: "4", MaxPerWeek: "20", DelayHours: "24", Days: "90"}
	for range consent.MaxEndpoints {
		f.Endpoints = append(f.Endpoints, typedEndpoint{Kind: string(task.A2A)})
	}
	return f
}

func optInOf(v url.Values) optInForm {
	f := optInForm{
		Agent: strings.TrimSpace(v.Get("agent")), Skills: v.Get("skills"), MaxPerDay: v.Get("perDay"), MaxPerWeek: v.Get("perWeek"), DelayHours: v.Get("delay"),
		Days: v.Get("days"), Payments: v.Get("payments") != "", MaxPerTask: v.Get("perTask"), MaxPerMonth: v.Get("perMonth"), NonceHash: strings.TrimSpace(v.Get("nonceHash")),
	}
	for i := range consent.MaxEndpoints {
		f.Endpoints = append(f.Endpoints, typedEndpoint{v.Get(fmt.Sprintf("kind%d", i)), strings.TrimSpace(v.Get(fmt.Sprintf("url%d", i)))})
	}
	return f
}

// request makes a request of what was typed. Its rules are those of the interface for
// programs; only what is no number is found here.
func (f optInForm) request() (r consent.Request, err error) {
	r.Agent = agent.Ref(f.Agent)
	if f.Agent != "" && !strings.Contains(f.Agent, ":") {
		r.Agent = agent.Ref("build:" + f.Agent)
	}
	if r.Agent, err = agent.ParseRef(string(r.Agent)); err != nil {
		return r, err
	}
	kinds := make(map[task.Kind]bool)
	for _, e := range f.Endpoints {
		if e.URL == "" {
			continue
		}
		kind := task.Kind(e.Kind)
		r.Endpoints = append(r.Endpoints, consent.Endpoint{Kind: kind, URL: e.URL})
		kinds[kind] = true
	}
	for _, kind := range []task.Kind{task.A2A, task.MCP, task.X402} {
		if kinds[kind] {
			r.Kinds = append(r.Kinds, kind)
		}
	}
	for skill := range strings.FieldsFuncSeq(f.Skills, func(c rune) bool { return c == ',' || c == '\n' || c == '\r' }) {
		if skill = strings.TrimSpace(skill); skill != "" {
			r.Skills = append(r.Skills, skill)
		}
	}
	hours, days := 0, 0
	for _, n := range []struct {
		text string
		name string
		into *int
	}{
		{f.MaxPerDay, "most tasks a day", &r.MaxPerDay},
		{f.MaxPerWeek, "most tasks a week", &r.MaxPerWeek},
		{f.DelayHours, "hours until a task is revealed", &hours},
		{f.Days, "days", &days},
	} {
		if *n.into, err = strconv.Atoi(strings.TrimSpace(n.text)); err != nil || *n.into < 0 || *n.into > 1<<20 {
			return r, fmt.Errorf("the field %q takes a whole number: %w", n.name, domain.ErrInvalid)
		}
	}
	r.RevealDelaySeconds, r.ValidityDays = int64(hours)*3600, uint32(days)
	if f.Payments {
		r.PaymentsAllowed = true
		r.Payment = &consent.Payment{Network: consent.PaymentNetwork, MaxPerTask: strings.TrimSpace(f.MaxPerTask), MaxPerMonth: strings.TrimSpace(f.MaxPerMonth)}
	}
	if f.NonceHash != "" {
		if r.OwnerNonceHash, err = domain.ParseHash(f.NonceHash); err != nil {
			return r, fmt.Errorf("the hash of your nonce: %w", err)
		}
	}
	return r, nil
}

type optInPage struct {
	frame

	Form    optInForm
	Kinds   []string
	PerDay  int
	PerWeek int
	MinDays int
	MaxDays int
	Network string
	Problem *Problem // what was wrong with the form; nil before it was sent
	Lead    string
}

func (p *Pages) optInPage(f frame, form optInForm, problem *Problem) optInPage {
	f.Title = "Opt in"
	f.Description = "Give a consent to Mystery Shopping for an agent of yours."
	v := optInPage{
		frame: f, Form: form, Kinds: []string{string(task.A2A), string(task.MCP), string(task.X402)}, PerDay: consent.MaxPerDay, PerWeek: consent.MaxPerWeek,
		MinDays: consent.MinValidity, MaxDays: consent.MaxValidity, Network: consent.PaymentNetwork, Problem: problem,
	}
	if problem != nil {
		v.Lead = sentence(problem.Detail)
	}
	return v
}

func (p *Pages) optIn(_ *http.Request, f frame, _ projections.Status) (any, error) {
	return p.optInPage(f, emptyOptIn(), nil), nil
}

// A signPage shows a message and takes its signature.
type signPage struct {
	frame

	Message  string
	Hex      string       // the bytes of the message, as wallets take them
	Owner    string       // whose account is to sign
	Download template.URL // of the message, byte for byte
	File     string
	Action   string
	Consent  string // that is to be revoked; "" for one that is given
	Problem  *Problem
	Lead     string
	Nonce    bool // the owner has to disclose the nonce that the message commits to

	ChallengeID string
	Payload     string // canonical JSON; "" for a revocation
	Expires     *time.Time
}

func (p *Pages) signing(f frame, message, file string, owner eip191.Address) signPage {
	script := p.files["sign.js"]
	f.Script = &script
	return signPage{
		frame: f, Message: message, File: file, Hex: "0x" + hex.EncodeToString([]byte(message)), Owner: owner.String(),
		Download: template.URL("data:text/plain;charset=us-ascii;base64," + base64.StdEncoding.EncodeToString([]byte(message))), //nolint:gosec // base64 holds no markup
	}
}

// challenge answers the form of an opt-in with the message to sign, or with the form and
// what is wrong with it.
func (p *Pages) challenge(w http.ResponseWriter, r *http.Request) {
	values, err := p.form(w, r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	f, _, err := p.open(r, "optin")
	if err != nil {
		p.fail(w, r, err)
		return
	}
	form := optInOf(values)
	v, err := p.consentToSign(r.Context(), f, form)
	if err == nil {
		p.show(w, r, http.StatusOK, "sign", v)
		return
	}
	problem := p.config.Problem(r.Context(), err)
	p.show(w, r, problem.Status, "optin", p.optInPage(f, form, &problem))
}

// checkOptIn says of a form that is being filled in whether it keeps the rules, as far as
// they can be told without asking elsewhere. Nothing comes of it: no message is made, and
// no limit is drawn on.
func (p *Pages) checkOptIn(w http.ResponseWriter, r *http.Request) {
	values, err := p.form(w, r)
	if err == nil {
		err = p.keepsRules(r.Context(), optInOf(values))
	}
	answer := struct {
		OK     bool   `json:"ok"`
		Detail string `json:"detail"` // a sentence; empty if it keeps them
	}{OK: err == nil}
	if err != nil {
		problem := p.config.Problem(r.Context(), err)
		if answer.Detail = sentence(problem.Detail); answer.Detail == "" {
			answer.Detail = problem.Title + "."
		}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client may be gone
}

func (p *Pages) keepsRules(ctx context.Context, form optInForm) error {
	request, err := form.request()
	if err == nil {
		err = p.config.Owners.Check(request)
	}
	if err != nil {
		return err
	}
	if _, err = p.config.Reader.Agent(ctx, request.Agent); errors.Is(err, domain.ErrNotFound) {
		return domain.WithCode(domain.NotRegistered, fmt.Errorf("agent %s is not registered: %w", request.Agent, domain.ErrNotFound))
	}
	return err
}

// consentToSign returns the page with the message that a form of an opt-in comes to.
func (p *Pages) consentToSign(ctx context.Context, f frame, form optInForm) (v signPage, err error) {
	request, err := form.request()
	if err != nil {
		return v, err
	}
	c, err := p.config.Owners.Challenge(ctx, request)
	if err != nil {
		return v, err
	}
	payload, err := domain.Canonical(c.Payload)
	if err != nil {
		return v, err
	}
	f.Title = "Sign the consent"
	v = p.signing(f, c.Message, "karatum-consent.txt", c.Payload.Owner)
	v.Action, v.ChallengeID, v.Expires, v.Nonce = "/mystery/consents", c.ChallengeID, &c.ExpiresAt, !c.Payload.OwnerNonceHash.IsZero()
	v.Payload = string(payload)
	return v, nil
}

// grant takes the signature of a consent.
func (p *Pages) grant(w http.ResponseWriter, r *http.Request) {
	values, err := p.form(w, r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	f, _, err := p.open(r, "sign")
	if err != nil {
		p.fail(w, r, err)
		return
	}
	var payload consent.Payload
	if domain.Unmarshal([]byte(values.Get("payload")), &payload) != nil {
		p.fail(w, r, fmt.Errorf("the payload in the form is not the one that was issued; ask for another message: %w", domain.ErrInvalid))
		return
	}
	message, err := payload.Message()
	if err != nil {
		p.fail(w, r, err)
		return
	}
	var nonce domain.Hash
	if text := strings.TrimSpace(values.Get("nonce")); text != "" {
		nonce, err = domain.ParseHash(strings.TrimPrefix(text, "0x"))
	}
	var id string
	if err == nil {
		id, err = p.config.Owners.Grant(r.Context(), values.Get("challenge"), payload, pasted(values.Get("signature")), nonce)
	}
	if err == nil {
		http.Redirect(w, r, "/mystery/"+id, http.StatusSeeOther)
		return
	}
	problem := p.config.Problem(r.Context(), err)
	f.Title = "Sign the consent"
	v := p.signing(f, message, "karatum-consent.txt", payload.Owner)
	v.Action, v.ChallengeID, v.Payload, v.Nonce = "/mystery/consents", values.Get("challenge"), values.Get("payload"), !payload.OwnerNonceHash.IsZero()
	v.Problem, v.Lead = &problem, sentence(problem.Detail)
	p.show(w, r, problem.Status, "sign", v)
}

// challengeRevoke shows the message that revokes a consent.
func (p *Pages) challengeRevoke(w http.ResponseWriter, r *http.Request) {
	if _, err := p.form(w, r); err != nil {
		p.fail(w, r, err)
		return
	}
	p.showRevocation(w, r, nil)
}

// showRevocation asks for a message to sign, after a signature of an earlier one was
// refused with problem, if that is not nil.
func (p *Pages) showRevocation(w http.ResponseWriter, r *http.Request, problem *Problem) {
	id := chi.URLParam(r, "consent")
	if !consentIDs.MatchString(id) {
		p.fail(w, r, errNoPage)
		return
	}
	f, _, err := p.open(r, "sign")
	if err != nil {
		p.fail(w, r, err)
		return
	}
	granted, err := p.config.Reader.Consent(r.Context(), id)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	c, err := p.config.Owners.ChallengeRevoke(r.Context(), id)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	f.Title = "Sign the revocation"
	v := p.signing(f, c.Message, "karatum-revocation.txt", granted.Payload.Owner)
	v.Action, v.Consent, v.ChallengeID, v.Expires = "/mystery/"+id+"/revocation", id, c.ChallengeID, &c.ExpiresAt
	status := http.StatusOK
	if problem != nil {
		v.Problem, v.Lead, status = problem, sentence(problem.Detail), problem.Status
	}
	p.show(w, r, status, "sign", v)
}

// revoke takes the signature of a revocation.
func (p *Pages) revoke(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "consent")
	values, err := p.form(w, r)
	if err == nil && !consentIDs.MatchString(id) {
		err = errNoPage
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	err = p.config.Owners.Revoke(r.Context(), id, values.Get("challenge"), pasted(values.Get("signature")))
	if err == nil {
		http.Redirect(w, r, "/mystery/"+id, http.StatusSeeOther)
		return
	}
	problem := p.config.Problem(r.Context(), err)
	if problem.Status == http.StatusNotFound || problem.Status >= http.StatusInternalServerError {
		p.Refuse(w, r, problem)
		return
	}
	p.showRevocation(w, r, &problem)
}

// pasted is the signature in what was pasted: itself, or the member sig or signature of
// a JSON object, as wallets that write files make it.
func pasted(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		return text
	}
	var o struct{ Sig, Signature string }
	if json.Unmarshal([]byte(text), &o) != nil {
		return text
	}
	if o.Sig == "" {
		o.Sig = o.Signature
	}
	if o.Sig != "" && !strings.HasPrefix(o.Sig, "0x") {
		o.Sig = "0x" + o.Sig
	}
	return o.Sig
}

// show answers with a page that is made for one reader.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, status int, name string, v any) {
	body, err := p.render(name, v)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.head(w, name)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}
