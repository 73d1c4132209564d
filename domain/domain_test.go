package domain_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
)

type paintedV1 struct {
	Colour string `json:"colour"`
}

type painted struct {
	Wall   string `json:"wall"`
	Colour string `json:"colour"`
}

type cleaned struct {
	Wall string `json:"wall"`
}

func (paintedV1) EventType() domain.Type { return "wall.painted.v1" }
func (painted) EventType() domain.Type   { return "wall.painted.v2" }
func (cleaned) EventType() domain.Type   { return "wall.cleaned.v1" }

var walls = []domain.Entry{
	domain.Upcast(domain.Public, func(e paintedV1) painted { return painted{"north", e.Colour} }),
	domain.Current[painted](domain.Public),
	domain.Current[cleaned](domain.Sealed),
}

func TestCatalogDecode(t *testing.T) {
	t.Parallel()
	catalog := domain.NewCatalog(walls)
	for _, tt := range []struct {
		name string
		typ  domain.Type
		data string
		want domain.Event
		err  bool
	}{
		{"current shape", "wall.painted.v2", `{"wall":"east","colour":"red"}`, painted{"east", "red"}, false},
		{"retired shape", "wall.painted.v1", `{"colour":"red"}`, painted{"north", "red"}, false},
		{"field left out", "wall.painted.v2", `{"wall":"east"}`, painted{Wall: "east"}, false},
		{"unknown field", "wall.painted.v1", `{"colour":"red","gloss":true}`, nil, true},
		{"wrong type of field", "wall.painted.v1", `{"colour":7}`, nil, true},
		{"second value", "wall.painted.v1", `{"colour":"red"} {}`, nil, true},
		{"text after the value", "wall.painted.v1", `{"colour":"red"} x`, nil, true},
		{"cut short", "wall.painted.v1", `{"colour":"re`, nil, true},
		{"nothing", "wall.painted.v1", ``, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := catalog.Decode(tt.typ, []byte(tt.data))
			if (err != nil) != tt.err {
				t.Fatalf("Decode(%s, %s) error = %v, want error %t", tt.typ, tt.data, err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Decode(%s, %s) (-want +got):\n%s", tt.typ, tt.data, diff)
			}
		})
	}
}

// What was read before, well or badly, leaves nothing behind.
func TestUnmarshalOneAfterTheOther(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	for range 3 {
		for _, tt := range []struct {
			data string
			want painted
			err  bool
		}{
			{`{"wall":"` + long + `"}`, painted{Wall: long}, false},
			{`{"wall":"north"} {"wall":"south"}`, painted{Wall: "north"}, true},
			{` {"colour":"red"} ` + "\n", painted{Colour: "red"}, false},
			{`{"wall":"no`, painted{}, true},
			{`{}`, painted{}, false},
		} {
			var got painted
			if err := domain.Unmarshal([]byte(tt.data), &got); (err != nil) != tt.err || got != tt.want {
				t.Errorf("Unmarshal(%.40s) = %.40v, %v, want %.40v and error %t", tt.data, got, err, tt.want, tt.err)
			}
		}
	}
}

func TestCatalogUnknownType(t *testing.T) {
	t.Parallel()
	catalog := domain.NewCatalog(walls)
	if _, err := catalog.Decode("wall.moved.v1", []byte(`{}`)); !errors.Is(err, domain.ErrUnknownType) {
		t.Errorf("Decode(wall.moved.v1) error = %v, want ErrUnknownType", err)
	}
	if got := catalog.Visibility("wall.moved.v1"); got != domain.Sealed {
		t.Errorf("Visibility(wall.moved.v1) = %d, want Sealed", got)
	}
}

func TestCatalogVisibility(t *testing.T) {
	t.Parallel()
	catalog := domain.NewCatalog(walls)
	for typ, want := range map[domain.Type]domain.Visibility{
		"wall.painted.v1": domain.Public, "wall.painted.v2": domain.Public, "wall.cleaned.v1": domain.Sealed,
	} {
		if got := catalog.Visibility(typ); got != want {
			t.Errorf("Visibility(%s) = %d, want %d", typ, got, want)
		}
	}
}

func TestCatalogTypes(t *testing.T) {
	t.Parallel()
	got := slices.Collect(domain.NewCatalog(walls[1:], walls[:1]).Types())
	if want := []domain.Type{"wall.cleaned.v1", "wall.painted.v1", "wall.painted.v2"}; !slices.Equal(got, want) {
		t.Errorf("Types() = %v, want %v", got, want)
	}
}

func TestCatalogTypeTwice(t *testing.T) {
	t.Parallel()
	defer func() {
		if r, ok := recover().(string); !ok || !strings.Contains(r, "wall.cleaned.v1") {
			t.Errorf("NewCatalog with a type twice panicked with %q, want the type's name", r)
		}
	}()
	domain.NewCatalog(walls, walls[2:])
}

func TestEncode(t *testing.T) {
	t.Parallel()
	got, err := domain.Encode(painted{Wall: "east", Colour: "<&> \u2028 é \x01"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "{\"colour\":\"<&> \u2028 é \\u0001\",\"wall\":\"east\"}"; string(got) != want {
		t.Errorf("Encode() = %q, want %q", got, want)
	}
}

type odd struct {
	Share float64 `json:"share"`
}

func (odd) EventType() domain.Type { return "wall.measured.v1" }

func TestEncodeNoNumber(t *testing.T) {
	t.Parallel()
	if got, err := domain.Encode(odd{math.NaN()}); err == nil || !strings.Contains(err.Error(), "wall.measured.v1") {
		t.Errorf("Encode(NaN) = %s, %v, want an error that names the type", got, err)
	}
}

// The numbers and strings of the example in RFC 8785, section 3.2.2, and the
// order of section 3.2.3.
func TestCanonicalRFC8785(t *testing.T) {
	t.Parallel()
	const in = `{
		"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
		"literals": [null, true, false]}`
	const want = `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
		`"string":"€$\u000f\nA'B\"\\\\\"/"}`
	got, err := domain.Canonical(json.RawMessage(in))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("Canonical() = %s, want %s", got, want)
	}
}

func TestParseHash(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("0123456789abcdef", 4)
	h, err := domain.ParseHash(digits)
	if err != nil || h.String() != digits || h.IsZero() {
		t.Errorf("ParseHash(%s) = %s, %v", digits, h, err)
	}
	for _, bad := range []string{"", digits[:63], digits + "0", "0x" + digits[:62], strings.ToUpper(digits), digits[:63] + "g"} {
		if h, err := domain.ParseHash(bad); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("ParseHash(%q) = %s, %v, want ErrInvalid", bad, h, err)
		}
	}
}

func TestHashJSON(t *testing.T) {
	t.Parallel()
	in := domain.Sum([]byte("abc"))
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out domain.Hash
	if err := json.Unmarshal(data, &out); err != nil || out != in {
		t.Errorf("JSON %s reads as %s, %v, want %s", data, out, err, in)
	}
	if !(domain.Hash{}).IsZero() {
		t.Error("the zero Hash is not zero")
	}
}

// "abc" of FIPS 180-2, appendix B.1, and test case 1 of RFC 4231 with its key
// padded to 32 bytes by zeros, which HMAC does anyway.
func TestSumAndMAC(t *testing.T) {
	t.Parallel()
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := domain.Sum([]byte("a"), nil, []byte("bc")).String(); got != abc {
		t.Errorf("Sum(a, , bc) = %s, want %s", got, abc)
	}
	var key domain.Hash
	for i := range 20 {
		key[i] = 0x0b
	}
	const hi = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
	if got := domain.MAC(key, []byte("Hi "), []byte("There")).String(); got != hi {
		t.Errorf("MAC(Hi , There) = %s, want %s", got, hi)
	}
}

func TestEnc(t *testing.T) {
	t.Parallel()
	h := domain.Sum()
	got := domain.NewEnc("p").Str("ab").Bytes([]byte{9}).U32(1).U64(2).Hash(h)
	want := "\x00\x00\x00\x01p" + "\x00\x00\x00\x02ab" + "\x00\x00\x00\x01\x09" + "\x00\x00\x00\x01" + "\x00\x00\x00\x00\x00\x00\x00\x02" + string(h[:])
	if string(got) != want {
		t.Errorf("Enc = %x, want %x", []byte(got), want)
	}
}

// Two ways to cut the same letters into fields must not meet.
func FuzzEncIsUnambiguous(f *testing.F) {
	f.Add("ab", "c", "a", "bc")
	f.Add("", "a", "a", "")
	f.Fuzz(func(t *testing.T, a1, a2, b1, b2 string) {
		a := domain.NewEnc("p").Str(a1).Str(a2)
		b := domain.NewEnc("p").Str(b1).Str(b2)
		if (string(a) == string(b)) != (a1 == b1 && a2 == b2) {
			t.Errorf("Enc(%q, %q) = %x, Enc(%q, %q) = %x", a1, a2, []byte(a), b1, b2, []byte(b))
		}
	})
}

func TestDays(t *testing.T) {
	t.Parallel()
	for day, want := range map[uint32]string{0: "1970-01-01", 20454: "2026-01-01", 20512: "2026-02-28", 20513: "2026-03-01"} {
		start := domain.DayStart(day)
		if got := domain.DayString(day); got != want || domain.DayOf(start) != day || domain.DayOf(start.Add(-1)) == day && day > 0 {
			t.Errorf("DayString(%d) = %s, DayOf(start) = %d, want %s and the day itself", day, got, domain.DayOf(start), want)
		}
	}
}

func TestDeciderReplay(t *testing.T) {
	t.Parallel()
	d := domain.Decider[int, struct{}, painted]{Evolve: func(n int, _ painted) int { return n + 1 }}
	if got := d.Replay(painted{}, painted{}); got != 2 {
		t.Errorf("Replay of two events = %d, want 2", got)
	}
	if got := d.Replay(); got != 0 {
		t.Errorf("Replay of nothing = %d, want the zero state", got)
	}
}
