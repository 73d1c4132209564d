package accept_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/karatum/mystery/api/accept"
)

func TestWeight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values []string
		of     string
		want   int
	}{
		{"absent", nil, "gzip", 0},
		{"named", []string{"br, gzip"}, "gzip", 1000},
		{"another case", []string{"GZip"}, "gzip", 1000},
		{"a part of a name", []string{"x-gzip"}, "gzip", 0},
		{"with a weight", []string{"br;q=1.0, gzip ; q=0.8"}, "gzip", 800},
		{"refused", []string{"gzip;q=0, *"}, "gzip", 0},
		{"in the second line", []string{"br", "gzip"}, "gzip", 1000},
		{"a wildcard", []string{"*"}, "gzip", 0},
		{"with a parameter", []string{"application/json;v=1;q=0.5"}, "application/json", 500},
		{"no number", []string{"gzip;q=much"}, "gzip", 0},
		{"not a number", []string{"gzip;q=NaN"}, "gzip", 0},
		{"too heavy", []string{"gzip;q=2"}, "gzip", 0},
		{"soup", []string{",;,;;q=,=;gzip=1,\x00"}, "gzip", 0},
	} {
		h := http.Header{"Accept": c.values}
		if got := accept.Weight(h, "Accept", c.of); got != c.want {
			t.Errorf("%s: Weight(%q, %q) = %d, want %d", c.name, c.values, c.of, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	h := http.Header{"Accept": {"text/csv;q=0.1, ,text/html;q=0", ";;q=1,application/json;v=1;q=,  text/plain ;x"}}
	if got, want := strings.Join(accept.Names(h, "Accept"), " "), "text/csv text/plain"; got != want {
		t.Errorf("Names = %q, want %q", got, want)
	}
	if got := accept.Names(nil, "Accept"); got != nil {
		t.Errorf("Names of nothing = %q", got)
	}
}
