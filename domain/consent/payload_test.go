package consent_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/task"
)

func endpoints(n int) (list []consent.Endpoint) {
	for i := range n {
		list = append(list, consent.Endpoint{Kind: task.A2A, URL: fmt.Sprintf("https://agent.example/%d", i)})
	}
	return list
}

func skills(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("skill-%d", i))
	}
	return list
}

// Each limit at, below and above its bound.
func TestRequestCheckLimits(t *testing.T) {
	t.Parallel()
	type set = func(*consent.Request)
	perDay := func(n int) set { return func(r *consent.Request) { r.MaxPerDay = n } }
	perWeek := func(n int) set { return func(r *consent.Request) { r.MaxPerWeek = n } }
	delay := func(n int64) set { return func(r *consent.Request) { r.RevealDelaySeconds = n } }
	validity := func(n uint32) set { return func(r *consent.Request) { r.ValidityDays = n } }
	endpoint := func(n int) set {
		return func(r *consent.Request) { r.Endpoints, r.Kinds = endpoints(n), []task.Kind{task.A2A} }
	}
	url := func(n int) set {
		return func(r *consent.Request) {
			r.Endpoints[0].URL = "https://agent.example/" + strings.Repeat("x", n-len("https://agent.example/"))
		}
	}
	skillCount := func(n int) set { return func(r *consent.Request) { r.Skills = skills(n) } }
	skillLength := func(n int) set { return func(r *consent.Request) { r.Skills = []string{strings.Repeat("x", n)} } }
	network := func(name string) set { return func(r *consent.Request) { r.Payment.Network = name } }
	perTask := func(s string) set { return func(r *consent.Request) { r.Payment.MaxPerTask = s } }
	perMonth := func(s string) set { return func(r *consent.Request) { r.Payment.MaxPerMonth = s } }
	ref := func(n int) set {
		return func(r *consent.Request) { r.Agent = agent.Ref("build:" + strings.Repeat("x", n-len("build:"))) }
	}

	for _, tt := range []struct {
		name string
		set  set
		good bool
	}{
		{"no tasks a day", perDay(0), false},
		{"fewer than none a day", perDay(-1), false},
		{"one task a day", perDay(1), true},
		{"24 tasks a day", perDay(24), true},
		{"25 tasks a day", perDay(25), false},
		{"as many as can be counted a day", perDay(math.MaxInt), false},

		{"no tasks a week", perWeek(0), false},
		{"fewer than none a week", perWeek(-1), false},
		{"one task a week", perWeek(1), true},
		{"100 tasks a week", perWeek(100), true},
		{"101 tasks a week", perWeek(101), false},

		{"a second less than an hour", delay(3599), false},
		{"an hour", delay(3600), true},
		{"30 days", delay(30 * 86400), true},
		{"a second more than 30 days", delay(30*86400 + 1), false},
		{"no delay", delay(0), false},
		{"a delay backwards", delay(-86400), false},
		// 10⁹ is 2⁹·5⁹, so 2⁵⁵ s are 0 ns in 64 bits.
		{"a day, with an overflow of nanoseconds below", delay(86400 - 1<<55), false},
		{"a day, with an overflow of nanoseconds above", delay(86400 + 1<<55), false},
		{"a delay that wraps to over an hour", delay(-18446740000), false},
		{"the longest delay", delay(math.MaxInt64), false},
		{"the shortest delay", delay(math.MinInt64), false},

		{"6 days of validity", validity(6), false},
		{"7 days of validity", validity(7), true},
		{"365 days of validity", validity(365), true},
		{"366 days of validity", validity(366), false},
		{"no validity", validity(0), false},
		{"the longest validity", validity(math.MaxUint32), false},

		{"no endpoint", func(r *consent.Request) { r.Endpoints = nil }, false},
		{"one endpoint", endpoint(1), true},
		{"six endpoints", endpoint(6), true},
		{"seven endpoints", endpoint(7), false},

		{"a URL of 512 characters", url(512), true},
		{"a URL of 513 characters", url(513), false},

		{"no skills", skillCount(0), true},
		{"one skill", skillCount(1), true},
		{"64 skills", skillCount(64), true},
		{"65 skills", skillCount(65), false},
		{"a skill of 128 characters", skillLength(128), true},
		{"a skill of 129 characters", skillLength(129), false},
		{"a skill without a name", skillLength(0), false},

		{"no payments", func(r *consent.Request) { r.PaymentsAllowed, r.Payment = false, nil }, true},
		{"payments without limits", func(r *consent.Request) { r.Payment = nil }, false},
		{"limits without payments", func(r *consent.Request) { r.PaymentsAllowed = false }, false},
		{"x402 without payments", func(r *consent.Request) {
			r.PaymentsAllowed, r.Payment = false, nil
			r.Endpoints[1].Kind, r.Kinds = task.X402, []task.Kind{task.X402}
		}, false},
		{"x402 with payments", func(r *consent.Request) { r.Endpoints[1].Kind, r.Kinds = task.X402, []task.Kind{task.X402} }, true},
		{"x402 out of scope without payments", func(r *consent.Request) {
			r.PaymentsAllowed, r.Payment = false, nil
			r.Endpoints[1].Kind, r.Kinds = task.X402, []task.Kind{task.A2A}
		}, true},
		{"the network", network("eip155:84532"), true},
		{"the network by another name", network("base-sepolia"), false},
		{"a network with real money", network("eip155:8453"), false},
		{"no network", network(""), false},
		{"a month for less than a task", func(r *consent.Request) { r.Payment.MaxPerTask, r.Payment.MaxPerMonth = "10000", "9999" }, false},
		{"a month for one task", func(r *consent.Request) { r.Payment.MaxPerTask, r.Payment.MaxPerMonth = "10000", "10000" }, true},
		{"one unit a task", perTask("1"), true},
		{"30 digits a task", func(r *consent.Request) {
			r.Payment.MaxPerTask, r.Payment.MaxPerMonth = strings.Repeat("9", 30), strings.Repeat("9", 30)
		}, true},
		{"31 digits a task", perTask(strings.Repeat("9", 31)), false},
		{"nothing a task", perTask("0"), false},
		{"no amount a task", perTask(""), false},
		{"leading zero a task", perTask("01"), false},
		{"less than nothing a task", perTask("-1"), false},
		{"a sign a task", perTask("+1"), false},
		{"a fraction a task", perTask("0.5"), false},
		{"a power of ten a task", perTask("1e6"), false},
		{"hex a task", perTask("0x10"), false},
		{"digits of another script a task", perTask("１０"), false},
		{"one unit a month", func(r *consent.Request) { r.Payment.MaxPerTask, r.Payment.MaxPerMonth = "1", "1" }, true},
		{"30 digits a month", perMonth(strings.Repeat("9", 30)), true},
		{"31 digits a month", perMonth(strings.Repeat("9", 31)), false},
		{"nothing a month", perMonth("0"), false},

		{"a ref of 160 characters", ref(160), true},
		{"a ref of 161 characters", ref(161), false},
		{"no ref", func(r *consent.Request) { r.Agent = "" }, false},
		{"a ref in upper case", func(r *consent.Request) { r.Agent = "build:A" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := request()
			tt.set(&r)
			switch err := r.Check(); {
			case tt.good && err != nil:
				t.Errorf("Check: %v", err)
			case !tt.good && !errors.Is(err, domain.ErrInvalid):
				t.Errorf("Check = %v, want ErrInvalid", err)
			}
		})
	}
}

func TestRequestCheckScope(t *testing.T) {
	t.Parallel()
	type set = func(*consent.Request)
	kinds := func(kinds ...task.Kind) set { return func(r *consent.Request) { r.Kinds = kinds } }
	allow := func(skills ...string) set { return func(r *consent.Request) { r.Skills = skills } }
	for _, tt := range []struct {
		name string
		set  set
		good bool
	}{
		{"one kind of two", kinds(task.MCP), true},
		{"kinds in another order", kinds(task.MCP, task.A2A), true},
		{"no kind", kinds(), false},
		{"a kind twice", kinds(task.A2A, task.A2A), false},
		{"a kind without an endpoint", kinds(task.A2A, task.X402), false},
		{"an unknown kind", kinds("smtp"), false},
		{"an endpoint of an unknown kind", func(r *consent.Request) { r.Endpoints[1].Kind = "smtp" }, false},
		{"an endpoint without a kind", func(r *consent.Request) { r.Endpoints[1].Kind = "" }, false},
		{"an endpoint of a kind in upper case", func(r *consent.Request) { r.Endpoints[1].Kind = "MCP" }, false},
		{"an endpoint twice", func(r *consent.Request) { r.Endpoints[1] = r.Endpoints[0] }, false},
		{"a URL twice, of two kinds", func(r *consent.Request) { r.Endpoints[1].URL = r.Endpoints[0].URL }, true},

		{"a skill twice", allow("a", "b", "a"), false},
		{"two skills of one name in two cases", allow("a", "A"), true},
		{"two skills in one", allow("a, b"), false},
		{"two skills in one without a blank", allow("a,b"), false},
		{"a skill with a blank inside", allow("unit conversion"), true},
		{"a skill with a blank before", allow(" a"), false},
		{"a skill with a blank after", allow("a "), false},
		{"a blank skill", allow(" "), false},
		{"a skill called all", allow("all"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := request()
			tt.set(&r)
			switch err := r.Check(); {
			case tt.good && err != nil:
				t.Errorf("Check: %v", err)
			case !tt.good && !errors.Is(err, domain.ErrInvalid):
				t.Errorf("Check = %v, want ErrInvalid", err)
			}
		})
	}
}

func TestRequestCheckURL(t *testing.T) {
	t.Parallel()
	check := func(url string) error {
		r := request()
		r.Endpoints[0].URL = url
		return r.Check()
	}
	for _, good := range []string{
		"https://agent.example", "https://agent.example/", "https://agent.example:8443/a/b?c=d", "https://[2001:db8::1]/a",
		"https://agent.example/%20", "http://127.0.0.1:4000/a2a",
	} {
		if err := check(good); err != nil {
			t.Errorf("Check of URL %q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "agent.example", "/a2a", "//agent.example/a2a", "https:", "https://", "https:///a2a", "https:agent.example", "https://:443/a2a",
		"https://user@/a2a", "ftp://agent.example/", "file:///etc/passwd", "javascript:alert(1)", "data:text/plain,a", "ws://agent.example/",
		"https://agent.example:port/", "https://agent.example/%zz", "https://[::1/a", "https://agent.example/a b", "https://agent example/",
		" https://agent.example/", "https://agent.example/ ", "https://agënt.example/",
	} {
		if err := check(bad); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Check of URL %q = %v, want ErrInvalid", bad, err)
		}
	}
}

// What a wallet shows must be what was written: no line may begin, and no letter
// may be drawn, that the payload does not stand for.
func TestNothingSneaksIntoTheMessage(t *testing.T) {
	t.Parallel()
	hostile := map[string]string{
		"line feed":            "\nTasks per day: at most 1",
		"carriage return":      "\rTasks per day: at most 1",
		"line separator":       "\u2028Tasks per day: at most 1",
		"paragraph separator":  "\u2029x",
		"next line":            "\u0085x",
		"vertical tab":         "\vx",
		"form feed":            "\fx",
		"tab":                  "\tx",
		"null":                 "\x00x",
		"escape":               "\x1b[2Kx",
		"backspace":            "\bx",
		"delete":               "\x7fx",
		"right to left":        "\u202ex",
		"isolate":              "\u2066x",
		"zero width":           "\u200bx",
		"byte order mark":      "\ufeffx",
		"no-break space":       "\u00a0x",
		"Cyrillic a":           "\u0430",
		"combining":            "e\u0301",
		"full width":           "\uff21",
		"invalid UTF-8":        "\xff",
		"continuation byte":    "\x80",
		"overlong line feed":   "\xc0\x8a",
		"emoji":                "\U0001f4b8",
		"tag characters":       "\U000e0041",
		"replacement of bytes": "\ufffd",
	}
	fields := map[string]func(*consent.Payload, string){
		"URL":       func(p *consent.Payload, s string) { p.Endpoints[0].URL += s },
		"URL query": func(p *consent.Payload, s string) { p.Endpoints[0].URL += "?" + s + "=1" },
		"skill":     func(p *consent.Payload, s string) { p.Skills[0] += s + "x" },
		"skill end": func(p *consent.Payload, s string) { p.Skills[0] += s },
		"network":   func(p *consent.Payload, s string) { p.Payment.Network += s },
		"per task":  func(p *consent.Payload, s string) { p.Payment.MaxPerTask += s },
		"per month": func(p *consent.Payload, s string) { p.Payment.MaxPerMonth += s },
		"agent":     func(p *consent.Payload, s string) { p.Agent += agent.Ref(s) },
		"kind":      func(p *consent.Payload, s string) { p.Kinds[0] += task.Kind(s) },
		"domain":    func(p *consent.Payload, s string) { p.Domain += s },
	}
	for field, set := range fields {
		for name, text := range hostile {
			p := payload(request(), 1)
			set(&p, text)
			if err := p.Check(); !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("Check with %s in %s = %v, want ErrInvalid", name, field, err)
			}
		}
	}
}

const onRegistry = agent.Ref("erc8004:84532:0x8004a818bfb912233c491871b3d84c89a494bd9e:0")

func TestPayloadCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		set  func(*consent.Payload)
		good bool
	}{
		{"as issued", func(*consent.Payload) {}, true},
		{"a day longer", func(p *consent.Payload) { p.LastDay++ }, false},
		{"a day shorter", func(p *consent.Payload) { p.LastDay-- }, false},
		{"a day earlier", func(p *consent.Payload) { p.FirstDay-- }, false},
		{"no domain", func(p *consent.Payload) { p.Domain = "" }, false},
		{"a domain with a blank", func(p *consent.Payload) { p.Domain = "karatum.com asks nothing. evil.example" }, false},
		{"no chain", func(p *consent.Payload) { p.Chain = 0 }, false},
		{"a chain beyond exact numbers", func(p *consent.Payload) { p.Chain = agent.MaxChain + 1 }, false},
		{"an agent on a registry of its chain", func(p *consent.Payload) { p.Agent = onRegistry }, true},
		{"an agent on a registry of another chain", func(p *consent.Payload) { p.Agent, p.Chain = onRegistry, 1 }, false},
		{"a request beyond the limits", func(p *consent.Payload) { p.MaxPerWeek = 101 }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := payload(request(), 1)
			tt.set(&p)
			switch err := p.Check(); {
			case tt.good && err != nil:
				t.Errorf("Check: %v", err)
			case !tt.good && !errors.Is(err, domain.ErrInvalid):
				t.Errorf("Check = %v, want ErrInvalid", err)
			}
		})
	}
}

// The very bytes that wallets show and sign.
func TestMessage(t *testing.T) {
	t.Parallel()
	paid := request()
	paid.OwnerNonceHash = domain.Hash{}
	nonce := plain()
	nonce.OwnerNonceHash = domain.Sum(ownerNonce[:])
	for file, r := range map[string]consent.Request{
		"message.txt":         plain(),
		"message_payment.txt": paid,
		"message_nonce.txt":   nonce,
		"message_full.txt":    request(),
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			got, err := payload(r, 1).Message()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, got)
		})
	}
}

func TestRevocationMessage(t *testing.T) {
	t.Parallel()
	golden(t, "revocation.txt", revocation().Message())
}

func revocation() consent.Revocation {
	return consent.Revocation{
		Domain: "karatum.com", Consent: "cns_evmwdbivcm7gsejx5jq2", Agent: "build:42", Owner: owner,
		Nonce: domain.Sum([]byte("revoke")), IssuedAt: issuedAt,
	}
}

// golden compares a message with the bytes under testdata, and demands of both
// ASCII, LF and no newline at the end.
func golden(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
	wellFormed(t, got)
}

func wellFormed(t *testing.T, message string) {
	t.Helper()
	if strings.ContainsFunc(message, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }) {
		t.Errorf("message %q is not printable ASCII and LF", message)
	}
	if strings.HasSuffix(message, "\n") || !strings.HasPrefix(message, "karatum.com asks ") {
		t.Errorf("message %q ends with a newline or does not begin with the domain", message)
	}
}

// labels are the lines of a message in the order of the specification.
func labels(p consent.Payload) []string {
	list := []string{"", "Agent", "Owner", "Chain of the owner's contracts"}
	for i, e := range p.Endpoints {
		list = append(list, fmt.Sprintf("Endpoint ep_%d (%s)", i, e.Kind))
	}
	list = append(list, "Kinds in scope", "Skills in scope", "Tasks per day", "Tasks per week",
		"Cost per task", "Cost per month", "Payment network", "Reveal delay", "Validity", "Terms", "Identity pool",
		"Catalogue digest", "Operator key", "Plan key root")
	if !p.OwnerNonceHash.IsZero() {
		list = append(list, "Owner nonce commitment")
	}
	return append(list, "Nonce", "Issued at", "Payload hash")
}

func linesOf(message string) (list []string) {
	for _, line := range strings.Split(message, "\n")[1:] {
		label, _, _ := strings.Cut(line, ": ")
		list = append(list, label)
	}
	return list
}

func TestMessageOrder(t *testing.T) {
	t.Parallel()
	for _, r := range []consent.Request{plain(), request()} {
		p := payload(r, 1)
		message, err := p.Message()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(labels(p), linesOf(message)); diff != "" {
			t.Errorf("lines of the message (-want +got):\n%s", diff)
		}
		hash, err := p.Hash()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(message, "\nPayload hash: "+hash.String()) {
			t.Errorf("the message ends with %q, want the payload hash %s", message[len(message)-80:], hash)
		}
	}
}

// A reader need not trust the hash: each field shows in the words before it.
func TestMessageTellsEveryField(t *testing.T) {
	t.Parallel()
	words := func(p consent.Payload) string {
		message, err := p.Message()
		if err != nil {
			t.Fatal(err)
		}
		return message[:strings.LastIndex(message, "\n")]
	}
	for _, base := range []consent.Request{request(), plain()} {
		seen := map[string]string{words(payload(base, 1)): "nothing"}
		changes := map[string]func(*consent.Payload){
			"agent":            func(p *consent.Payload) { p.Agent = "build:43" },
			"endpoint kind":    func(p *consent.Payload) { p.Endpoints[0].Kind = task.X402 },
			"endpoint URL":     func(p *consent.Payload) { p.Endpoints[1].URL += "x" },
			"endpoint order":   func(p *consent.Payload) { slices.Reverse(p.Endpoints) },
			"one endpoint":     func(p *consent.Payload) { p.Endpoints = p.Endpoints[:1] },
			"kinds":            func(p *consent.Payload) { p.Kinds = p.Kinds[:1] },
			"order of kinds":   func(p *consent.Payload) { slices.Reverse(p.Kinds) },
			"skills":           func(p *consent.Payload) { p.Skills = []string{"other"} },
			"skill called all": func(p *consent.Payload) { p.Skills = []string{"all"} },
			"per day":          func(p *consent.Payload) { p.MaxPerDay++ },
			"per week":         func(p *consent.Payload) { p.MaxPerWeek++ },
			"payment network": func(p *consent.Payload) {
				p.Payment = &consent.Payment{Network: "none", MaxPerTask: "10000", MaxPerMonth: "250000"}
			},
			"payment per task": func(p *consent.Payload) {
				p.Payment = &consent.Payment{Network: "eip155:84532", MaxPerTask: "1", MaxPerMonth: "250000"}
			},
			"payment per month": func(p *consent.Payload) {
				p.Payment = &consent.Payment{Network: "eip155:84532", MaxPerTask: "10000", MaxPerMonth: "1"}
			},
			"reveal delay":     func(p *consent.Payload) { p.RevealDelaySeconds++ },
			"validity":         func(p *consent.Payload) { p.ValidityDays++ },
			"owner nonce hash": func(p *consent.Payload) { p.OwnerNonceHash = domain.Hash{1} },
			"domain":           func(p *consent.Payload) { p.Domain = "karatum.org" },
			"owner":            func(p *consent.Payload) { p.Owner = eip191.Address{1} },
			"chain":            func(p *consent.Payload) { p.Chain++ },
			"operator key":     func(p *consent.Payload) { p.OperatorKey[0]++ },
			"first day":        func(p *consent.Payload) { p.FirstDay++ },
			"last day":         func(p *consent.Payload) { p.LastDay++ },
			"terms version":    func(p *consent.Payload) { p.TermsVersion++ },
			"terms hash":       func(p *consent.Payload) { p.TermsHash[0]++ },
			"pool version":     func(p *consent.Payload) { p.PoolVersion++ },
			"pool hash":        func(p *consent.Payload) { p.PoolHash[0]++ },
			"catalogue digest": func(p *consent.Payload) { p.CatalogueDigest[0]++ },
			"plan key root":    func(p *consent.Payload) { p.PlanKeyRoot[0]++ },
			"nonce":            func(p *consent.Payload) { p.Nonce[0]++ },
			"issued at":        func(p *consent.Payload) { p.IssuedAt = p.IssuedAt.Add(time.Second) },
		}
		for name, change := range changes {
			p := payload(base, 1)
			p.Endpoints, p.Kinds = slices.Clone(p.Endpoints), slices.Clone(p.Kinds)
			change(&p)
			text := words(p)
			if same, dup := seen[text]; dup {
				t.Errorf("a change of %s reads like one of %s", name, same)
			}
			seen[text] = name
		}
	}
}

func TestPayloadHash(t *testing.T) {
	t.Parallel()
	p := payload(request(), 1)
	data, err := domain.Canonical(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Hash()
	if want := domain.Sum(data); err != nil || got != want {
		t.Errorf("Hash() = %s, %v, want %s", got, err, want)
	}
	// A client that sends the payload back as JSON sends the same payload.
	var back consent.Payload
	if err := domain.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := back.Hash(); err != nil || again != got {
		t.Errorf("hash after a round = %s, %v, want %s", again, err, got)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Errorf("payload after a round (-want +got):\n%s", diff)
	}
	p.IssuedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if h, err := p.Hash(); err == nil {
		t.Errorf("Hash() of a payload without JSON = %s, want an error", h)
	}
	if m, err := p.Message(); err == nil {
		t.Errorf("Message() of a payload without JSON = %q, want an error", m)
	}
}

// The plan of a day is sealed from 22:00 of the day before, so a challenge that
// could be signed later than that is too late for tomorrow.
func TestFirstDay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ expires, want string }{
		{"2026-10-16T00:00:00Z", "2026-10-17"},
		{"2026-10-16T12:00:00Z", "2026-10-17"},
		{"2026-10-16T21:59:59Z", "2026-10-17"},
		{"2026-10-16T21:59:59.999999999Z", "2026-10-17"},
		{"2026-10-16T22:00:00Z", "2026-10-18"},
		{"2026-10-16T22:00:01Z", "2026-10-18"},
		{"2026-10-16T23:59:59Z", "2026-10-18"},
		{"2026-10-17T00:00:00Z", "2026-10-18"},
		{"2026-12-31T21:59:59Z", "2027-01-01"},
		{"2026-12-31T22:00:00Z", "2027-01-02"},
		{"2028-02-28T21:59:59Z", "2028-02-29"},
		{"2026-10-17T00:59:59+03:00", "2026-10-17"},
	} {
		expires, err := time.Parse(time.RFC3339, tt.expires)
		if err != nil {
			t.Fatal(err)
		}
		if got := domain.DayString(consent.FirstDay(expires)); got != tt.want {
			t.Errorf("FirstDay(%s) = %s, want %s", tt.expires, got, tt.want)
		}
	}
	// By the moment at which the challenge was issued.
	for issued, want := range map[string]string{
		"2026-10-16T21:44:59Z": "2026-10-17",
		"2026-10-16T21:45:00Z": "2026-10-18",
	} {
		at, err := time.Parse(time.RFC3339, issued)
		if err != nil {
			t.Fatal(err)
		}
		if got := domain.DayString(consent.FirstDay(at.Add(consent.ChallengeLife))); got != want {
			t.Errorf("first day of a challenge issued at %s = %s, want %s", issued, got, want)
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	p := payload(plain(), 1)
	for day, want := range map[uint32]bool{
		0: false, p.FirstDay - 1: false, p.FirstDay: true, p.LastDay: true, p.LastDay + 1: false, math.MaxUint32: false,
	} {
		if got := p.Covers(day); got != want {
			t.Errorf("Covers(%s) = %t, want %t", domain.DayString(day), got, want)
		}
	}
	if got := p.RevealDelay(); got != 24*time.Hour {
		t.Errorf("RevealDelay() = %s, want 24h", got)
	}
}

// Whatever passes Check gives a message of just the lines that there must be.
func FuzzMessage(f *testing.F) {
	f.Add("https://agent.example/a2a", "a", "eip155:84532", "10", "build:42", int64(3600))
	f.Add("https://a.example/\nNonce: 1", "a\nb", "x\ny", "1\n", "build:1\n", int64(-18446740000))
	f.Add("https://a.example/\u2028", "\u202e", "\u0430", "１", "build:é", int64(0))
	f.Add("https://a.example/", "a", "eip155:84532", "10", string(onRegistry), int64(3600))
	f.Fuzz(func(t *testing.T, url, skill, network, amount, ref string, delay int64) {
		p := payload(request(), 1)
		p.Endpoints[0].URL, p.Skills[0], p.Agent, p.RevealDelaySeconds = url, skill, agent.Ref(ref), delay
		p.Payment = &consent.Payment{Network: network, MaxPerTask: amount, MaxPerMonth: amount}
		if p.Check() != nil {
			return
		}
		message, err := p.Message()
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, message)
		if diff := cmp.Diff(labels(p), linesOf(message)); diff != "" {
			t.Errorf("lines of the message (-want +got):\n%s", diff)
		}
		if delay := p.RevealDelay(); delay < consent.MinRevealDelay || delay > consent.MaxRevealDelay {
			t.Errorf("reveal delay = %s", delay)
		}
	})
}
