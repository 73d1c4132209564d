package explorer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/verify"
	"github.com/karatum/mystery/projections"
)

// maxShown is how much of a reply stands on a page. Escaping makes some of it five times
// as long; the whole is to be had for programs.
const maxShown = 12 << 10

type shopPage struct {
	frame

	Shop    projections.Shop
	Program *program // that browsers check it with; nil if there is none
	Report  *verify.ShopReport
	Made    time.Time // the report
	Checks  []check
	Due     time.Time // the day is opened, at the earliest, if nothing ends the consent before
	Opened  bool

	Revealed *shop.Revealed
	Ending   string
	Class    string
	Rule     string
	Literal  string // the outcome by the plain rule, where it differs
	Planned  time.Time
	Sent     *time.Time
	Reply    *reply
	Identity string
}

// A check is one of verify's, with its inputs in order.
type check struct {
	verify.SlotCheck

	Words  string
	Inputs []input
}

type input struct{ Name, Value string }

// A reply is what came of a task, cut at what the grade points at.
type reply struct {
	Before, Marked, After string
	Size                  int
	Cut                   bool // there is more of it
	Mended                bool // parts of it are no text, and are shown as U+FFFD
}

func (p *Pages) shop(r *http.Request, f frame, status projections.Status) (any, error) {
	ctx, id := r.Context(), chi.URLParam(r, "shop")
	if !shopIDs.MatchString(id) {
		return nil, errNoPage
	}
	s, err := p.config.Reader.Shop(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := p.config.Reader.Consent(ctx, s.Consent)
	if err != nil {
		return nil, err
	}
	v := &shopPage{frame: f, Shop: s, Program: p.checker, Due: openedAt(c, s.Day)}
	v.Own = s.Demo
	v.Title = fmt.Sprintf("Slot %02d of %s", s.Slot, day(s.Day))
	v.Description = "One slot of a consent to Mystery Shopping, and every check of it."
	if v.Report, v.Made, err = p.reports.of(ctx, id, status); err != nil {
		return nil, err
	}
	v.Checks = checksOf(v.Report)
	if s.Revealed == nil {
		return v, nil
	}
	v.revealed(s.Revealed)
	body, err := p.config.Reply(ctx, s)
	if err != nil {
		return nil, err
	}
	if body != nil {
		shown := replyOf(body, judgedOf(s.Revealed))
		v.Reply = &shown
	}
	return v, nil
}

// revealed fills in what the reveal tells.
func (v *shopPage) revealed(e *shop.Revealed) {
	v.Revealed = e
	ending := string(e.Result.Outcome)
	if e.Result.State != shop.StateJudged {
		ending = string(e.Result.State)
	}
	v.Ending, v.Class, v.Rule = endingWord(ending), endingClass(ending), ruleWord(e.Result.Rule)
	if e.Result.Literal != "" && e.Result.Literal != e.Result.Outcome {
		v.Literal = endingWord(string(e.Result.Literal))
	}
	v.Planned = time.Unix(e.SendAt, 0).UTC()
	sent := (shop.Sent{}).EventType()
	if i := slices.IndexFunc(e.Records, func(r ledger.Record) bool { return r.Type == sent }); i >= 0 {
		v.Sent = &e.Records[i].Time
	}
	if pool := identity.Pool(); int(e.Identity) < len(pool) {
		v.Identity = pool[e.Identity].Library
	}
}

// Asked is what was asked on the wire where that is not the question in words.
func (v *shopPage) Asked() string {
	if v.Revealed.Ask.Tool == "" {
		return ""
	}
	return fmt.Sprintf("%s %s", v.Revealed.Ask.Tool, v.Revealed.Ask.Arguments)
}

// judgedOf returns what the grade of a task says, zero if there is none.
func judgedOf(e *shop.Revealed) (j shop.Judged) {
	judged := j.EventType()
	for _, r := range e.Records {
		if r.Type == judged && domain.Unmarshal(r.Data, &j) != nil {
			return shop.Judged{}
		}
	}
	return j
}

// replyOf makes text of a reply: what is no text in it, or would change how the rest is
// shown, is replaced.
func replyOf(body []byte, j shop.Judged) reply {
	v := reply{Size: len(body), Mended: !utf8.Valid(body)}
	if len(body) > maxShown {
		body, v.Cut = body[:maxShown], true
	}
	start, end := j.Offset, j.Offset+j.Length
	if start < 0 || j.Length <= 0 || end > len(body) || end < start {
		start, end = len(body), len(body)
	}
	v.Before, v.Marked, v.After = readable(body[:start]), readable(body[start:end]), readable(body[end:])
	return v
}

// readable makes text of bytes. Of control characters it keeps tabs and line ends.
func readable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		if r == '\r' {
			return -1
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(string(b), string(utf8.RuneError)))
}

// ruleWords say why a task ended as it did, by the rule that decided.
var ruleWords = map[string]string{
	"empty":                   "there is nothing in the reply",
	"marker":                  "the value at the last explicit marker, such as “Answer:”, decides",
	"first12":                 "no marker decides, so the first twelve values do",
	"last":                    "the last weekday that is stated decides",
	"list":                    "the right value is one of several on offer",
	"negated":                 "the right value stands under a “not”",
	"no_value":                "nothing of the asked kind is in the reply",
	"refusal":                 "the reply declines and offers no value",
	"no_match":                "there are values of the asked kind, and none is right",
	"unmarkable":              "the task does not say what is right",
	"private_address":         "the address is not on the public internet",
	"unsupported_transport":   "it is reached only in ways that we do not speak or the consent does not cover",
	"auth_wall":               "credentials were asked for",
	"payment_cap":             "a payment was asked for that the consent or we do not allow",
	"bot_wall":                "something that wants to see a browser answered in its place",
	"rate_limited":            "a limit against us",
	"tool_gone":               "the tool was not listed any more",
	"no_card":                 "no agent card was found",
	"protocol":                "what came is not the protocol",
	"too_large":               "what came exceeds a limit",
	"transport":               "no connection, or one that broke",
	"failed":                  "the agent or its tool reported that it failed",
	shop.WorkerLost:           "our worker vanished between sending and marking",
	shop.ChainReadFailed:      "the right answer could not be read from the chain",
	string(shop.OperatorLate): "nobody sent it within its window",
	string(shop.Paused):       "a scope that it falls under was paused",
	string(shop.ProofStale):   "the host could not be asked lately whose it is",
	string(shop.Unattested):   "the commitments of its day were not attested on the chain",
	string(shop.HostBusy):     "its host had other tasks until it was too late, or wanted none",
	string(shop.ConsentOver):  "the consent was over",
	string(shop.HostLost):     "its host was not shown to be the owner’s any more",
}

func ruleWord(rule string) string {
	if w, ok := ruleWords[rule]; ok {
		return w
	}
	return rule
}

// checkWords say what each check of a slot is about.
var checkWords = map[string]string{
	"consent": "Consent", "plan": "Plan", "cap": "Limits", "count": "Task or pad", "choice": "Choice", "task": "Question and answer", "commit": "Commitment",
	"records": "Records", "sending": "Sending", "host": "Host", "payment": "Payment", "session": "Conversation", "reply": "Reply", "grade": "Grade",
	"seal": "Hourly seal", "reveal": "Reveal", "inclusion": "Signed log", "batch": "Batch", "attestation": "Attestation",
}

// statusWords say what came of a check.
var statusWords = map[verify.Status]string{
	verify.Pass: "holds", verify.Fail: "FAILS", verify.Pending: "pending", verify.Skipped: "skipped",
}

// StatusWord is what came of the check.
func (c check) StatusWord() string { return statusWords[c.Status] }

func checksOf(report *verify.ShopReport) []check {
	checks := make([]check, len(report.Checks))
	for i, c := range report.Checks {
		checks[i] = check{SlotCheck: c, Words: checkWords[c.ID]}
		for name, value := range c.Inputs {
			checks[i].Inputs = append(checks[i].Inputs, input{name, value})
		}
		slices.SortFunc(checks[i].Inputs, func(a, b input) int { return strings.Compare(a.Name, b.Name) })
	}
	return checks
}
