package domain_test

import (
	"encoding/json"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/karatum/mystery/domain"
)

// transformed is the canonical form by the library alone.
func transformed(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	canonical, err := jcs.Transform(raw)
	return string(canonical), err
}

var canonicalSeeds = []string{
	`{}`, `[]`, `{"b":1,"a":[true,false,null,{"d":"","c":-7}]}`, `{"a":1,"a":2}`, `{"b":{"z":1,"y":[{"q":1,"p":2}]},"a":"x"}`,
	`{"a":9007199254740993}`, `{"a":999999999999999}`, `{"a":1.50}`, `{"a":1e3}`, `{"a":-0}`, `{"a":0}`, `{"a":123456789012345678901234567890}`,
	`{"ä":1,"z":2}`, `{"\u20ac":1,"\r":2,"\ud83d\ude00":3,"1":4}`, `{"a":"<&>"}`, `{"a":"\u2028 \u0007 \b\f\n\r\t \" \\ /"}`, `{"a\"b":1,"a!":2}`,
	`"text"`, "\"\x8d\"", `-12`, `true`, ` { "b" : 1 , "a" : [ 1 , 2 ] } `, `{"a":"\ufffd"}`, `{"aa":1,"a":2,"":3}`, `{"":"\/"}`,
	`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11,"l":12,"m":13,"n":14,"o":15,"p":16,"q":17,"r":18,"s":19,"t":20,"u":21,"v":22,"w":23,"x":24,"z":26,"y":25}`,
}

// The short way to the canonical form leads to where the long one does.
func FuzzCanonical(f *testing.F) {
	for _, seed := range canonicalSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		v := json.RawMessage(data)
		want, wrong := transformed(v)
		got, err := domain.Canonical(v)
		if (err == nil) != (wrong == nil) || err == nil && string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v, want %s, %v", data, got, err, want, wrong)
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	v := struct {
		Stream  string   `json:"stream"`
		Version int      `json:"version"`
		Hashes  []string `json:"hashes"`
		Cause   struct {
			Correlation string `json:"correlation"`
			Command     string `json:"command"`
		} `json:"cause"`
	}{"shop/shp_mfzwizlsmjrxg43vmvzc_20260301_07", 3, []string{"d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26"}, struct {
		Correlation string `json:"correlation"`
		Command     string `json:"command"`
	}{"a", "b"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := domain.Canonical(v); err != nil {
			b.Fatal(err)
		}
	}
}
