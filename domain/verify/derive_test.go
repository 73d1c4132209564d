package verify_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/verify"
)

// plan_vectors.json was made by an implementation that shares nothing with ours.
// Each then must come out of its given to the byte, order of members included.
type vector struct {
	Given json.RawMessage `json:"given"`
	Then  json.RawMessage `json:"then"`
}

func vectors(tb testing.TB) []vector {
	tb.Helper()
	data, err := os.ReadFile("testdata/plan_vectors.json")
	if err != nil {
		tb.Fatal(err)
	}
	var vs []vector
	if err := json.Unmarshal(data, &vs); err != nil {
		tb.Fatal(err)
	}
	if len(vs) == 0 {
		tb.Fatal("there are no vectors")
	}
	return vs
}

// members is a JSON object whose members a test changes one by one.
type members map[string]json.RawMessage

func parse(tb testing.TB, data []byte) members {
	tb.Helper()
	var m members
	if err := json.Unmarshal(data, &m); err != nil {
		tb.Fatal(err)
	}
	return m
}

func encode(tb testing.TB, v any) json.RawMessage {
	tb.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// opened returns the given of v as it is known once the day is opened: the key
// and its path in place of the operator's secret.
func opened(tb testing.TB, v vector) members {
	tb.Helper()
	given, then := parse(tb, v.Given), parse(tb, v.Then)
	delete(given, "operator_secret")
	for _, name := range []string{"plan_key", "plan_key_path", "plan_key_root"} {
		given[name] = then[name]
	}
	return given
}

func compact(tb testing.TB, data []byte) string {
	tb.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func TestDeriveVectors(t *testing.T) {
	t.Parallel()
	for i, v := range vectors(t) {
		for mode, row := range map[string]json.RawMessage{
			"from the operator's secret": v.Given,
			"from the opened key":        encode(t, opened(t, v)),
		} {
			day, err := verify.Derive(row)
			if err != nil {
				t.Errorf("Derive of vector %d %s: %v", i, mode, err)
				continue
			}
			if diff := cmp.Diff(compact(t, v.Then), string(encode(t, day))); diff != "" {
				t.Errorf("Derive of vector %d %s: %s", i, mode, diff)
			}
		}
	}
}

func TestDeriveWithoutSample(t *testing.T) {
	t.Parallel()
	about := []string{"shop_id", "seal_root", "reply_hash", "deferred_hash", "sample_commit"}
	for i, v := range vectors(t) {
		given, then := parse(t, v.Given), parse(t, v.Then)
		delete(given, "sample")
		for _, name := range about {
			delete(then, name)
		}
		day, err := verify.Derive(encode(t, given))
		if err != nil {
			t.Fatalf("Derive of vector %d: %v", i, err)
		}
		if diff := cmp.Diff(string(encode(t, then)), string(encode(t, parse(t, encode(t, day))))); diff != "" {
			t.Errorf("Derive of vector %d without its sample: %s", i, diff)
		}
	}
}

// What is said of a slot says no less because something else is not said.
func TestDerivePartOfSample(t *testing.T) {
	t.Parallel()
	for i, v := range vectors(t) {
		for _, absent := range [][]string{{"seal"}, {"reply"}, {"seal", "reply"}} {
			given, then := parse(t, v.Given), parse(t, v.Then)
			sample := parse(t, given["sample"])
			for _, name := range absent {
				delete(sample, name)
				delete(then, map[string]string{"seal": "seal_root", "reply": "reply_hash"}[name])
			}
			given["sample"] = encode(t, sample)
			day, err := verify.Derive(encode(t, given))
			if err != nil {
				t.Fatalf("Derive of vector %d without %v: %v", i, absent, err)
			}
			if diff := cmp.Diff(string(encode(t, then)), string(encode(t, parse(t, encode(t, day))))); diff != "" {
				t.Errorf("Derive of vector %d without %v: %s", i, absent, diff)
			}
		}
	}
}

func TestDeriveOwnerNonce(t *testing.T) {
	t.Parallel()
	const nonce = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for i, v := range vectors(t) {
		for _, given := range []members{parse(t, v.Given), opened(t, v)} {
			delete(given, "signature")
			given["owner_nonce"] = encode(t, nonce)
			day, err := verify.Derive(encode(t, given))
			if err != nil {
				t.Fatalf("Derive of vector %d: %v", i, err)
			}
			raw, err := hex.DecodeString(nonce)
			if err != nil {
				t.Fatal(err)
			}
			part := sha256.Sum256(raw)
			mac := hmac.New(sha256.New, day.PlanKey[:])
			mac.Write([]byte("\x00\x00\x00\x16karatum/mystery/day/v1"))
			mac.Write(part[:])
			if want := domain.Hash(mac.Sum(nil)); day.DaySecret != want {
				t.Errorf("Derive of vector %d with an owner's nonce: day secret = %s, want %s", i, day.DaySecret, want)
			}
		}
	}
}

// However a wallet encodes its signature, the day is the same.
func TestDeriveAnyEncodingOfSignature(t *testing.T) {
	t.Parallel()
	for i, v := range vectors(t) {
		given := parse(t, v.Given)
		var sig string
		if err := json.Unmarshal(given["signature"], &sig); err != nil {
			t.Fatal(err)
		}
		parity := sig[129] - 'b' // v is 1b or 1c
		yParityAndS, err := hex.DecodeString(sig[64:128])
		if err != nil {
			t.Fatal(err)
		}
		yParityAndS[0] |= parity << 7
		for _, other := range []string{
			"0x" + sig,
			sig[:128] + "0" + strconv.Itoa(int(parity)),
			sig[:64] + hex.EncodeToString(yParityAndS),
		} {
			given["signature"] = encode(t, other)
			day, err := verify.Derive(encode(t, given))
			if err != nil || string(encode(t, day)) != compact(t, v.Then) {
				t.Errorf("Derive of vector %d with signature %s differs: %v", i, other, err)
			}
		}
	}
}

// Every element of a proof counts, and so do the day and the validity it is for.
func TestDeriveTamperedProof(t *testing.T) {
	t.Parallel()
	for i, v := range vectors(t) {
		then := parse(t, v.Then)
		var path []domain.Hash
		if err := json.Unmarshal(then["plan_key_path"], &path); err != nil {
			t.Fatal(err)
		}
		refuse := func(what, name string, value any) {
			t.Helper()
			given := opened(t, v)
			delete(given, "sample") // whose date would not fit another day
			given[name] = encode(t, value)
			if _, err := verify.Derive(encode(t, given)); !errors.Is(err, verify.ErrFailed) {
				t.Errorf("Derive of vector %d with %s = %v, want ErrFailed", i, what, err)
			}
		}
		for k := range path {
			for bit := i; bit < 256; bit += 37 {
				bad := slices.Clone(path)
				bad[k][bit/8] ^= 1 << (bit % 8)
				refuse("a flipped bit in its path", "plan_key_path", bad)
			}
			refuse("an element left out", "plan_key_path", slices.Delete(slices.Clone(path), k, k+1))
			refuse("an element twice", "plan_key_path", slices.Insert(slices.Clone(path), k, path[k]))
		}
		refuse("an empty path", "plan_key_path", []domain.Hash{})
		refuse("an element too many", "plan_key_path", append(slices.Clone(path), domain.Hash{}))

		var first, days, day int
		for name, n := range map[string]*int{"first_day": &first, "days": &days, "day": &day} {
			if err := json.Unmarshal(parse(t, v.Given)[name], n); err != nil {
				t.Fatal(err)
			}
		}
		for other := first; other < first+days; other += 1 + days/32 {
			if other != day {
				refuse("another day", "day", other)
			}
			if other != first && other <= day {
				refuse("another first day", "first_day", other)
			}
		}
		for _, name := range []string{"plan_key", "plan_key_root"} {
			var h domain.Hash
			if err := json.Unmarshal(then[name], &h); err != nil {
				t.Fatal(err)
			}
			h[i] ^= 1
			refuse("another "+name, name, h)
		}
	}
}

func TestDeriveRefuses(t *testing.T) {
	t.Parallel()
	v := vectors(t)[0]
	const (
		key   = `"ef2ce602ced80caee764dc43659cd83b8e6346a089bd70cdd3ab79c9f4869080"`
		highS = `"353926c8011317ed9bacd2be1ba15e924020f49ac2839f8f39076fc6b148cb00ffffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a01b"`
	)
	for _, test := range []struct {
		name   string
		opened bool
		change map[string]string // a member and its value, or "" to leave it out
	}{
		{"no nonce", false, map[string]string{"nonce": ""}},
		{"no cap", false, map[string]string{"cap": ""}},
		{"no day", false, map[string]string{"day": ""}},
		{"no first day", false, map[string]string{"first_day": ""}},
		{"no days", false, map[string]string{"days": ""}},
		{"no key at all", false, map[string]string{"operator_secret": ""}},
		{"no root", true, map[string]string{"plan_key_root": ""}},
		{"no path", true, map[string]string{"plan_key_path": ""}},
		{"no plan key", true, map[string]string{"plan_key": ""}},
		{"secret and plan key", true, map[string]string{"operator_secret": key}},
		{"secret and root", false, map[string]string{"plan_key_root": key}},
		{"nobody's part", false, map[string]string{"signature": ""}},
		{"signature and owner's nonce", false, map[string]string{"owner_nonce": key}},
		{"unknown member", false, map[string]string{"extra": "1"}},
		{"a name in another case", false, map[string]string{"cap": "", "Cap": "6"}},

		{"hash with 0x", false, map[string]string{"nonce": `"0xef2ce602ced80caee764dc43659cd83b8e6346a089bd70cdd3ab79c9f4869080"`}},
		{"hash in upper case", false, map[string]string{"nonce": strings.ToUpper(key)}},
		{"hash too short", false, map[string]string{"operator_secret": `"ef2c"`}},
		{"hash not hex", false, map[string]string{"nonce": strings.Replace(key, "e", "g", 1)}},
		{"hash null", false, map[string]string{"nonce": "null"}},
		{"hash a number", false, map[string]string{"nonce": "7"}},
		{"path null", true, map[string]string{"plan_key_path": "null"}},
		{"path with null", true, map[string]string{"plan_key_path": "[" + key + ",null," + key + "]"}},
		{"path of numbers", true, map[string]string{"plan_key_path": "[1,2,3]"}},
		{"path of bad hex", true, map[string]string{"plan_key_path": `["zz"]`}},
		{"path a string", true, map[string]string{"plan_key_path": key}},

		{"signature with 0x twice", false, map[string]string{"signature": `"0x0x` + strings.Repeat("1", 128) + `1b"`}},
		{"signature with 0X", false, map[string]string{"signature": `"0X` + strings.Repeat("1", 128) + `1b"`}},
		{"signature too short", false, map[string]string{"signature": `"1b"`}},
		{"signature with high s", false, map[string]string{"signature": highS}},
		{"signature with a wrong v", false, map[string]string{"signature": `"` + strings.Repeat("1", 128) + `1d"`}},
		{"owner's nonce too short", false, map[string]string{"signature": "", "owner_nonce": `"00"`}},

		{"cap over 24", false, map[string]string{"cap": "25"}},
		{"cap negative", false, map[string]string{"cap": "-1"}},
		{"cap fractional", false, map[string]string{"cap": "6.5"}},
		{"cap with an exponent", false, map[string]string{"cap": "1e1"}},
		{"cap a string", false, map[string]string{"cap": `"6"`}},
		{"cap null", false, map[string]string{"cap": "null"}},
		{"cap huge", false, map[string]string{"cap": "18446744073709551617"}},
		{"day before the first", false, map[string]string{"day": "20877"}},
		{"day after the last", false, map[string]string{"day": "20885"}},
		{"no days in the validity", false, map[string]string{"days": "0"}},
		{"more days than a year", false, map[string]string{"days": "366"}},
		{"absurdly many days", false, map[string]string{"days": "4294967295"}},
		{"day behind the calendar", false, map[string]string{"first_day": "2932890", "day": "2932897", "days": "30", "sample": ""}},
		{"day that wraps around", false, map[string]string{"first_day": "4294967295", "day": "0", "days": "2", "sample": ""}},

		{"sample null", false, map[string]string{"sample": "null"}},
		{"sample empty", false, map[string]string{"sample": "{}"}},
		{"sample a list", false, map[string]string{"sample": "[]"}},
		{"sample a string", false, map[string]string{"sample": `"none"`}},
		{"sample of another day", false, map[string]string{"day": "20880"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			given := parse(t, v.Given)
			if test.opened {
				given = opened(t, v)
			}
			for name, value := range test.change {
				if value == "" {
					delete(given, name)
				} else {
					given[name] = json.RawMessage(value)
				}
			}
			refused(t, encode(t, given))
		})
	}
}

func refused(t *testing.T, row []byte) {
	t.Helper()
	day, err := verify.Derive(row)
	if !errors.Is(err, domain.ErrInvalid) || errors.Is(err, verify.ErrFailed) {
		t.Errorf("Derive(%.200s) = %v, want ErrInvalid and not ErrFailed", row, err)
	}
	if day.ConsentID != "" {
		t.Errorf("Derive(%.200s) failed and returned a day", row)
	}
}

func TestDeriveRefusesSample(t *testing.T) {
	t.Parallel()
	v := vectors(t)[0]
	for _, test := range []struct {
		name         string
		part, member string
		value        string
	}{
		{"slot over 23", "", "slot", "24"},
		{"slot negative", "", "slot", "-1"},
		{"template null", "", "template", "null"},
		{"template missing", "", "template", ""},
		{"version over 32 bits", "", "template_version", "4294967296"},
		{"bad hex in ask_hash", "", "ask_hash", `"zz"`},
		{"unknown member", "", "extra", "{}"},
		{"ask_hash missing", "", "ask_hash", ""},
		{"seal null", "", "seal", "null"},
		{"seal empty", "", "seal", "{}"},
		{"reply null", "", "reply", "null"},
		{"reply empty", "", "reply", "{}"},
		{"hour over 23", "seal", "hour_of_day", "24"},
		{"bad hex in head_hash", "seal", "head_hash", `""`},
		{"unknown member of seal", "seal", "extra", "0"},
		{"date of another day", "reply", "yyyymmdd", `"20270305"`},
		{"date with dashes", "reply", "yyyymmdd", `"2027-03-04"`},
		{"time negative", "reply", "received_at_ms", "-1"},
		{"time over 53 bits", "reply", "received_at_ms", "9007199254740992"},
		{"status negative", "reply", "status", "-1"},
		{"latency fractional", "reply", "latency_ms", "0.5"},
		{"bad hex in salt", "reply", "salt", `"0x"`},
		{"body null", "reply", "body", "null"},
		{"body missing", "reply", "body", ""},
		{"body with half of a pair", "reply", "body", `"\ud83d"`},
		{"body with the halves swapped", "reply", "body", `"\udca9\ud83d"`},
		{"unknown member of reply", "reply", "extra", "0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			given := parse(t, v.Given)
			sample := parse(t, given["sample"])
			at := sample
			if test.part != "" {
				at = parse(t, sample[test.part])
			}
			if test.value == "" {
				delete(at, test.member)
			} else {
				at[test.member] = json.RawMessage(test.value)
			}
			if test.part != "" {
				sample[test.part] = encode(t, at)
			}
			given["sample"] = encode(t, sample)
			refused(t, encode(t, given))
		})
	}
}

func TestDeriveRefusesText(t *testing.T) {
	t.Parallel()
	row := compact(t, vectors(t)[0].Given)
	for name, text := range map[string]string{
		"nothing":               "",
		"white space":           " \n",
		"null":                  "null",
		"a list":                "[" + row + "]",
		"a string":              `"row"`,
		"cut off":               row[:len(row)-1],
		"cut off in a value":    row[:len(row)/2],
		"two objects":           row + row,
		"something behind":      row + "x",
		"a member twice":        `{"cap":6,` + row[1:],
		"a comma too many":      strings.TrimSuffix(row, "}") + ",}",
		"not UTF-8":             strings.Replace(row, "unit.convert", "unit\xffconvert", 1),
		"a name that is no key": `{1:2}`,
		"deep nesting":          `{"nonce":` + strings.Repeat("[", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, []byte(text))
		})
	}
}

// The bytes of a body are those of the text, however it is escaped.
func TestDeriveEscapes(t *testing.T) {
	t.Parallel()
	hashOf := func(body string) domain.Hash {
		given := parse(t, vectors(t)[0].Given)
		sample := parse(t, given["sample"])
		reply := parse(t, sample["reply"])
		reply["body"] = json.RawMessage(body)
		sample["reply"] = encode(t, reply)
		given["sample"] = encode(t, sample)
		day, err := verify.Derive(encode(t, given))
		if err != nil {
			t.Errorf("Derive with body %s: %v", body, err)
		}
		return day.ReplyHash
	}
	for a, b := range map[string]string{
		`"caf\u00e9"`:        `"café"`,
		`"\ud83d\uDCA9"`:     `"💩"`,
		`"\ufffd"`:           `"` + "\uFFFD" + `"`,
		`"\\ud83d"`:          `"\u005cud83d"`,
		`"\u003c\/\u003e\t"`: `"</>\u0009"`,
	} {
		if hashOf(a) != hashOf(b) {
			t.Errorf("bodies %s and %s have other hashes", a, b)
		}
	}
	if hashOf(`"a"`) == hashOf(`"b"`) {
		t.Error("the body is not in the reply hash")
	}
}

func FuzzDerive(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Given))
		f.Add([]byte(encode(f, opened(f, v))))
		short := opened(f, v)
		maps.DeleteFunc(short, func(name string, _ json.RawMessage) bool { return name == "sample" || name == "signature" })
		short["owner_nonce"] = short["nonce"]
		f.Add([]byte(encode(f, short)))
	}
	asked := parse(f, vectors(f)[0].Given)
	sample := parse(f, asked["sample"])
	delete(sample, "seal")
	delete(sample, "reply")
	asked["sample"] = encode(f, sample)
	f.Add([]byte(encode(f, asked)))
	f.Add([]byte(`{"nonce":"\ud800"}`))
	f.Add([]byte(`{"first_day":4294967295,"days":365,"day":0,"cap":24}`))
	f.Fuzz(func(t *testing.T, row []byte) {
		day, err := verify.Derive(row)
		switch {
		case errors.Is(err, verify.ErrFailed), errors.Is(err, domain.ErrInvalid):
			return
		case err != nil:
			t.Fatalf("Derive = %v, which is of no known kind", err)
		}
		// What was derived from a key holds for that key when it is opened.
		var given members
		if err := json.Unmarshal(row, &given); err != nil {
			t.Fatalf("Derive took what is no object: %v", err)
		}
		delete(given, "operator_secret")
		given["plan_key"] = encode(t, day.PlanKey)
		given["plan_key_path"] = encode(t, day.PlanKeyPath)
		given["plan_key_root"] = encode(t, day.PlanKeyRoot)
		again, err := verify.Derive(encode(t, given))
		if err != nil {
			t.Fatalf("Derive of the opened day: %v", err)
		}
		if diff := cmp.Diff(day, again); diff != "" {
			t.Errorf("Derive of the opened day: %s", diff)
		}
		if len(day.RealSlots) != day.Count {
			t.Errorf("%d real slots and a count of %d", len(day.RealSlots), day.Count)
		}
	})
}

func BenchmarkDerive(b *testing.B) {
	row := vectors(b)[3].Given // a validity of a year
	b.ReportAllocs()
	for b.Loop() {
		if _, err := verify.Derive(row); err != nil {
			b.Fatal(err)
		}
	}
}
