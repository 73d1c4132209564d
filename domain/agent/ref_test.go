package agent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
)

const (
	registry = "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432"
	maxID    = "115792089237316195423570985008687907853269984665640564039457584007913129639935" // 2^256 − 1
)

func TestParseRef(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"build:0", "build:42", "build:steady", "build:exam-aware", "build:7c", "build:00a", "build:_", "build:-1",
		"build:" + strings.Repeat("9", 154),
		"erc8004:1:" + registry + ":0",
		"erc8004:84532:" + registry + ":22",
		"erc8004:9007199254740991:" + registry + ":" + maxID,
	} {
		if got, err := agent.ParseRef(good); err != nil || string(got) != good {
			t.Errorf("ParseRef(%q) = %q, %v, want the same", good, got, err)
		}
	}
	for _, bad := range []string{
		"", "build", "build:", "build:007", "build:00", "build:Steady", "BUILD:1", "build:a b", "build:a/b", "build:1\n", "\nbuild:1",
		"build:é", "build:1:2", " build:1", "build:" + strings.Repeat("9", 155), "agent:1",
		"erc8004:0:" + registry + ":1",
		"erc8004:01:" + registry + ":1",
		"erc8004:1:" + registry + ":01",
		"erc8004:1:" + registry + ":",
		"erc8004:1:" + registry,
		"erc8004:1:" + registry + ":-1",
		"erc8004:1:" + strings.ToUpper(registry) + ":1",
		"erc8004:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432:1",
		"erc8004:1:" + registry[:41] + ":1",
		"erc8004:1:" + registry[2:] + ":1",
		"erc8004:10000000000000000000:" + registry + ":1",
		"erc8004:9007199254740992:" + registry + ":1",
		"erc8004:9999999999999999999:" + registry + ":1",
		"erc8004:1:" + registry + ":115792089237316195423570985008687907853269984665640564039457584007913129639936",
		"erc8004:1:" + registry + ":" + strings.Repeat("9", 79),
	} {
		if got, err := agent.ParseRef(bad); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("ParseRef(%q) = %q, %v, want ErrInvalid", bad, got, err)
		}
	}
}

func TestVerifiedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, identity, endpoint string
		want                     bool
	}{
		{"itself", "https://a.example/x", "https://a.example/x", true},
		{"with a slash", "https://a.example/x", "https://a.example/x/", true},
		{"without the slash", "https://a.example/x/", "https://a.example/x", true},
		{"whole host", "https://a.example", "https://a.example/", true},
		{"below", "https://a.example/x", "https://a.example/x/y", false},
		{"below the host", "https://a.example/", "https://a.example/x", false},
		{"above", "https://a.example/x", "https://a.example/", false},
		{"same beginning", "https://a.example/x", "https://a.example/xy", false},
		{"with a query", "https://a.example/x", "https://a.example/x?y=z", false},
		{"other case of the path", "https://a.example/x", "https://a.example/X", false},
		{"other host", "https://a.example/x", "https://b.example/x", false},
		{"host goes on", "https://a.example", "https://a.example.evil.example/", false},
		{"host as user", "https://a.example", "https://a.example@evil.example/", false},
		{"other port", "https://a.example/x", "https://a.example:8443/x", false},
		{"other scheme", "https://a.example/x", "http://a.example/x", false},
		{"way back to itself", "https://a.example/x", "https://a.example/y/../x", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := agent.Decider.Replay(agent.Registered{Agent: ref}, agent.IdentityVerified{URL: tt.identity})
			if got := s.VerifiedFor(tt.endpoint); got != tt.want {
				t.Errorf("VerifiedFor(%s) with identity %s = %t, want %t", tt.endpoint, tt.identity, got, tt.want)
			}
		})
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("build:42")
	f.Add("erc8004:84532:" + registry + ":22")
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := agent.ParseRef(s)
		if err != nil {
			return
		}
		if string(ref) != s || strings.ToLower(s) != s || strings.ContainsAny(s, " /\n") {
			t.Errorf("ParseRef(%q) = %q", s, ref)
		}
	})
}

func TestToken(t *testing.T) {
	t.Parallel()
	got, ok := agent.Ref("erc8004:84532:" + registry + ":" + maxID).Token()
	if !ok || got.Chain != 84532 || got.ID.String() != maxID || strings.ToLower(got.Registry.String()) != registry {
		t.Errorf("Token() = %v, %t", got, ok)
	}
	if first, ok := agent.Ref("erc8004:1:" + registry + ":0").Token(); !ok || first.ID.Sign() != 0 {
		t.Errorf("Token() of the first id = %v, %t, want 0", first, ok)
	}
	for _, ref := range []agent.Ref{"", "build:42", "erc8004:1:" + registry, "erc8004:1:0x12:1", "erc8004:x:" + registry + ":1"} {
		if got, ok := ref.Token(); ok {
			t.Errorf("Token() of %q = %v, want none", ref, got)
		}
	}
}

func TestBlockHash(t *testing.T) {
	t.Parallel()
	const text = "0x8f5bab218b6bb34476f51ca588e9f4553a3a7ce5e13a66c660a5283e97e9a85a"
	var h agent.BlockHash
	if err := h.UnmarshalText([]byte(text)); err != nil || h.String() != text {
		t.Errorf("UnmarshalText(%s) = %v, %v", text, h, err)
	}
	for _, bad := range []string{"", "0x", text[2:], strings.ToUpper(text), text + "00", text[:65] + "g"} {
		if err := h.UnmarshalText([]byte(bad)); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("UnmarshalText(%q) = %v, want ErrInvalid", bad, err)
		}
	}
}
