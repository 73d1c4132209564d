package consent

import (
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/task"
)

// The hard limits. No consent goes beyond them, whatever it asks for.
const (
	MaxPerDay      = 24
	MaxPerWeek     = 100
	MaxEndpoints   = 6
	MaxPerHost     = 24               // tasks a day for one host and port, over all consents
	HostPause      = 10 * time.Minute // between two tasks for one of them
	TaskDeadline   = time.Minute      // of one task, from the connection to the last byte
	MinRevealDelay = time.Hour
	MaxRevealDelay = 30 * 24 * time.Hour
	MinValidity    = 7   // days
	MaxValidity    = 365 // days
	maxSkills      = 64
	maxURL         = 512
)

// The bounds of the reveal delay in the unit of a request: a number of seconds
// that nobody has checked may be too large for a [time.Duration].
const (
	minRevealSeconds = int64(MinRevealDelay / time.Second)
	maxRevealSeconds = int64(MaxRevealDelay / time.Second)
)

// ChallengeLife is how long an owner may take to sign.
const ChallengeLife = 15 * time.Minute

// planLead is the time between the end of a challenge and the first day at the
// earliest: the day before is planned from 22:00 on.
const planLead = 2 * time.Hour

// An Endpoint is where tasks may be sent.
type Endpoint struct {
	Kind task.Kind `json:"kind"`
	URL  string    `json:"url"`
}

// EndpointID names the endpoint at place i of the message: ep_0, ep_1, …
func EndpointID(i int) string { return fmt.Sprintf("ep_%d", i) }

// PaymentNetwork is the one network that payments are made on: Base Sepolia, in
// test USDC (CAIP-2).
const PaymentNetwork = "eip155:84532"

// A Payment says what may be spent. Amounts are decimal strings in the atomic
// unit of USDC, a millionth of a dollar.
type Payment struct {
	Network     string `json:"network"`
	MaxPerTask  string `json:"maxPerTask"`
	MaxPerMonth string `json:"maxPerMonth"`
}

// A Request is what an owner chooses.
type Request struct {
	Agent              agent.Ref   `json:"agent"`
	Endpoints          []Endpoint  `json:"endpoints"`
	Kinds              []task.Kind `json:"kinds"`
	Skills             []string    `json:"skills,omitempty"` // empty: all
	MaxPerDay          int         `json:"maxPerDay"`
	MaxPerWeek         int         `json:"maxPerWeek"`
	PaymentsAllowed    bool        `json:"paymentsAllowed"`
	Payment            *Payment    `json:"payment,omitempty"` // just where they are allowed
	RevealDelaySeconds int64       `json:"revealDelaySeconds"`
	ValidityDays       uint32      `json:"validityDays"`
	OwnerNonceHash     domain.Hash `json:"ownerNonceHash,omitzero"`
}

// Terms is what the service adds to a request: who asks, under which published
// versions, and the commitment to all its day keys.
type Terms struct {
	Domain          string         `json:"domain"`
	Owner           eip191.Address `json:"owner"`
	Chain           uint64         `json:"chain"` // where the contracts of the owner are: its wallet, the registry of an ERC-8004 agent
	FirstDay        uint32         `json:"firstDay"`
	LastDay         uint32         `json:"lastDay"`
	TermsVersion    uint32         `json:"termsVersion"`
	TermsHash       domain.Hash    `json:"termsHash"`
	PoolVersion     uint32         `json:"poolVersion"`
	PoolHash        domain.Hash    `json:"poolHash"`
	CatalogueDigest domain.Hash    `json:"catalogueDigest"`
	OperatorKey     domain.Hash    `json:"operatorKey"` // stands for the secret that made the plan keys
	PlanKeyRoot     domain.Hash    `json:"planKeyRoot"`
	Nonce           domain.Hash    `json:"nonce"`
	IssuedAt        time.Time      `json:"issuedAt"`
}

// A Payload is everything the owner signs. Its canonical JSON is what the last
// line of the message hashes.
type Payload struct {
	Request
	Terms
}

// FirstDay returns the first UTC day that may be shopped under a challenge that
// expires at the given moment: only whole days count, planned in time.
func FirstDay(challengeExpires time.Time) uint32 {
	return domain.DayOf(challengeExpires.Add(planLead)) + 1
}

// Check returns nil if the request keeps every rule that can be judged without
// asking anybody, else an error matching [domain.ErrInvalid].
func (r Request) Check() error {
	if _, err := agent.ParseRef(string(r.Agent)); err != nil {
		return err
	}
	if len(r.Endpoints) == 0 || len(r.Endpoints) > MaxEndpoints {
		return invalid("a consent names 1 to %d endpoints, not %d", MaxEndpoints, len(r.Endpoints))
	}
	for i, e := range r.Endpoints {
		if err := e.check(); err != nil {
			return err
		}
		if slices.Contains(r.Endpoints[:i], e) {
			return invalid("endpoint %s is listed twice", e.URL)
		}
	}
	if err := r.checkKinds(); err != nil {
		return err
	}
	if err := r.checkSkills(); err != nil {
		return err
	}
	switch {
	case r.MaxPerDay < 1 || r.MaxPerDay > MaxPerDay:
		return invalid("tasks per day must be 1 to %d, not %d", MaxPerDay, r.MaxPerDay)
	case r.MaxPerWeek < 1 || r.MaxPerWeek > MaxPerWeek:
		return invalid("tasks per week must be 1 to %d, not %d", MaxPerWeek, r.MaxPerWeek)
	case r.RevealDelaySeconds < minRevealSeconds || r.RevealDelaySeconds > maxRevealSeconds:
		return invalid("the reveal delay must be %d to %d seconds, not %d", minRevealSeconds, maxRevealSeconds, r.RevealDelaySeconds)
	case r.ValidityDays < MinValidity || r.ValidityDays > MaxValidity:
		return invalid("the validity must be %d to %d days, not %d", MinValidity, MaxValidity, r.ValidityDays)
	}
	return r.checkPayment()
}

func (e Endpoint) check() error {
	switch e.Kind {
	case task.A2A, task.MCP, task.X402:
	default:
		return invalid("endpoint kind %q is none of a2a, mcp, x402", e.Kind)
	}
	// The URL is signed and shown: one printable ASCII word.
	if e.URL == "" || len(e.URL) > maxURL || !printable(e.URL, false) {
		return invalid("an endpoint URL has 1 to %d printable ASCII characters and no blanks", maxURL)
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return invalid("%q is not an absolute http(s) URL", e.URL)
	}
	return nil
}

func (r Request) checkKinds() error {
	if len(r.Kinds) == 0 {
		return invalid("a consent names at least one kind in scope")
	}
	for i, k := range r.Kinds {
		if slices.Contains(r.Kinds[:i], k) {
			return invalid("kind %q is listed twice", k)
		}
		if !slices.ContainsFunc(r.Endpoints, func(e Endpoint) bool { return e.Kind == k }) {
			return invalid("kind %q is in scope, but no endpoint is of that kind", k)
		}
	}
	return nil
}

func (r Request) checkSkills() error {
	if len(r.Skills) > maxSkills {
		return invalid("at most %d skills can be listed", maxSkills)
	}
	for i, s := range r.Skills {
		// A comma or blank at an end would make two lists read alike.
		if s == "" || len(s) > 128 || !printable(s, true) || strings.Contains(s, ",") || strings.TrimSpace(s) != s {
			return invalid("a skill is named by 1 to 128 printable ASCII characters without commas")
		}
		if slices.Contains(r.Skills[:i], s) {
			return invalid("skill %q is listed twice", s)
		}
	}
	return nil
}

func (r Request) checkPayment() error {
	bad := func(format string, args ...any) error {
		return domain.WithCode(domain.PaymentRules, invalid(format, args...))
	}
	switch {
	case !r.PaymentsAllowed && r.Payment != nil:
		return bad("payment has limits, but paymentsAllowed is not true")
	case !r.PaymentsAllowed && slices.Contains(r.Kinds, task.X402):
		return bad("tasks of kind x402 cost money; set paymentsAllowed, or leave that kind out")
	case !r.PaymentsAllowed:
		return nil
	case r.Payment == nil:
		return bad("payments are allowed without limits; say what one task and one month may cost, in payment")
	case r.Payment.Network != PaymentNetwork:
		return bad("payments are made on %s alone", PaymentNetwork)
	}
	perTask, ok := amount(r.Payment.MaxPerTask)
	perMonth, too := amount(r.Payment.MaxPerMonth)
	switch {
	case !ok || !too:
		return bad("an amount is a whole number of atomic units of USDC, from 1 on and without leading zeros")
	case perMonth.Cmp(perTask) < 0:
		return bad("a month may cost no less than one task")
	}
	return nil
}

// amount reads a decimal string of 1 to 30 digits that does not begin with 0.
func amount(s string) (n *big.Int, ok bool) {
	if len(s) == 0 || len(s) > 30 || strings.Trim(s, "0123456789") != "" || s[0] == '0' {
		return nil, false
	}
	return new(big.Int).SetString(s, 10)
}

// Check returns nil if the payload keeps its own rules. It is run on what a
// client sends back: a payload is trusted only with its challenge.
func (p Payload) Check() error {
	if err := p.Request.Check(); err != nil {
		return err
	}
	if t, ok := p.Agent.Token(); ok && t.Chain != p.Chain {
		return domain.WithCode(domain.WrongChain, invalid("the agent's registry is on chain %d, and the payload names chain %d", t.Chain, p.Chain))
	}
	switch {
	case p.Chain < 1 || p.Chain > agent.MaxChain:
		return domain.WithCode(domain.WrongChain, invalid("chain %d is none", p.Chain))
	case p.LastDay != p.FirstDay+p.ValidityDays-1:
		return invalid("the last day is not the first day and the validity")
	case p.Domain == "" || !printable(p.Domain, false):
		return invalid("the payload names no domain")
	}
	return nil
}

// Hash returns H(JCS(payload)), the last line of the message.
func (p Payload) Hash() (domain.Hash, error) {
	data, err := domain.Canonical(p)
	if err != nil {
		return domain.Hash{}, err
	}
	return domain.Sum(data), nil
}

// RevealDelay is the time between sending a task and revealing it.
func (p Payload) RevealDelay() time.Duration {
	return time.Duration(p.RevealDelaySeconds) * time.Second
}

// Covers reports whether day lies in the validity.
func (p Payload) Covers(day uint32) bool { return p.FirstDay <= day && day <= p.LastDay }

// Message returns the plain text that the owner signs (EIP-191 personal_sign):
// ASCII, LF, without a newline at the end. It says nothing that the payload does
// not, in the order in which a person would ask.
func (p Payload) Message() (string, error) {
	hash, err := p.Hash()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s asks for consent to Mystery Shopping of an AI agent. Signing costs no gas and authorises nothing on-chain.", p.Domain)
	line("")
	line("Agent: %s", p.Agent)
	line("Owner: %s", p.Owner)
	line("Chain of the owner's contracts: eip155:%d", p.Chain)
	for i, e := range p.Endpoints {
		line("Endpoint %s (%s): %s", EndpointID(i), e.Kind, e.URL)
	}
	line("Kinds in scope: %s", joinKinds(p.Kinds))
	line("Skills in scope: %s", joinSkills(p.Skills))
	line("Tasks per day: at most %d", p.MaxPerDay)
	line("Tasks per week: at most %d", p.MaxPerWeek)
	if p.Payment == nil {
		line("Cost per task: no payments allowed")
		line("Cost per month: no payments allowed")
		line("Payment network: none")
	} else {
		line("Cost per task: at most %s atomic units of USDC", p.Payment.MaxPerTask)
		line("Cost per month: at most %s atomic units of USDC", p.Payment.MaxPerMonth)
		line("Payment network: %s", p.Payment.Network)
	}
	line("Reveal delay: %d seconds after sending", p.RevealDelaySeconds)
	line("Validity: %d days, first %s, last %s (UTC)", p.ValidityDays, domain.DayString(p.FirstDay), domain.DayString(p.LastDay))
	line("Terms: version %d, hash %s", p.TermsVersion, p.TermsHash)
	line("Identity pool: version %d, hash %s", p.PoolVersion, p.PoolHash)
	line("Catalogue digest: %s", p.CatalogueDigest)
	line("Operator key: %s", p.OperatorKey)
	line("Plan key root: %s", p.PlanKeyRoot)
	if !p.OwnerNonceHash.IsZero() {
		line("Owner nonce commitment: %s", p.OwnerNonceHash)
	}
	line("Nonce: %s", p.Nonce)
	line("Issued at: %s", p.IssuedAt.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "Payload hash: %s", hash)
	return b.String(), nil
}

func joinKinds(kinds []task.Kind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}

// joinSkills tells "all" from a list with one skill of that name.
func joinSkills(skills []string) string {
	if len(skills) == 0 {
		return "all"
	}
	return "only " + strings.Join(skills, ", ")
}

func printable(s string, blanks bool) bool {
	for i := range len(s) {
		if c := s[i]; c > 0x7e || c < 0x20 || c == ' ' && !blanks {
			return false
		}
	}
	return true
}

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, domain.ErrInvalid)...)
}
