package eip191_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// checksummed are the test cases of EIP-55.
var checksummed = []string{
	"0x52908400098527886E0F7030069857D2E4169EE7",
	"0x8617E340B3D01FA5F11F306F4090FD50E238070D",
	"0xde709f2102306220921060314715629080e2fb77",
	"0x27b1fdb04752bbc536007a920d24acb045561c26",
	"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
	"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
	"0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	const digits = "0x1234567890123456789012345678901234567890"
	for _, want := range append(checksummed, digits) {
		for _, in := range []string{want, strings.ToLower(want)} {
			a, err := eip191.ParseAddress(in)
			if err != nil || a.String() != want {
				t.Errorf("ParseAddress(%s) = %s, %v, want %s", in, a, err, want)
			}
		}
	}
}

func TestParseAddressRefuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"one letter in the wrong case": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1Beaed",
		"all in upper case":            "0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED",
		"no 0x":                        "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		"0X":                           "0X5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		"39 digits":                    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe",
		"42 digits":                    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed00",
		"not hex":                      "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaeg",
		"white space":                  " 0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
		"empty":                        "",
		"empty behind 0x":              "0x",
	} {
		if a, err := eip191.ParseAddress(in); !errors.Is(err, domain.ErrInvalid) || !a.IsZero() {
			t.Errorf("ParseAddress with %s = %s, %v, want ErrInvalid", name, a, err)
		}
	}
}

func TestAddressText(t *testing.T) {
	t.Parallel()
	in := `"` + strings.ToLower(checksummed[4]) + `"`
	var a eip191.Address
	if err := json.Unmarshal([]byte(in), &a); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(a); err != nil || string(out) != `"`+checksummed[4]+`"` {
		t.Errorf("Marshal = %s, %v, want %q", out, err, checksummed[4])
	}
	if err := a.UnmarshalText([]byte("0x")); !errors.Is(err, domain.ErrInvalid) || a.String() != checksummed[4] {
		t.Errorf("UnmarshalText(0x) = %v and the address is %s", err, a)
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range checksummed {
		f.Add(s)
		f.Add(strings.ToLower(s))
		f.Add(strings.ToUpper(s))
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := eip191.ParseAddress(s)
		if err != nil {
			if !errors.Is(err, domain.ErrInvalid) || !a.IsZero() {
				t.Errorf("ParseAddress(%q) = %s, %v", s, a, err)
			}
			return
		}
		if text := a.String(); s != text && s != strings.ToLower(text) {
			t.Errorf("ParseAddress(%q) took another spelling than %s", s, text)
		}
		if again, err := eip191.ParseAddress(a.String()); err != nil || again != a {
			t.Errorf("ParseAddress(%s) = %s, %v", a, again, err)
		}
	})
}
