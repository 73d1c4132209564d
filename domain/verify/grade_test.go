package verify_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/verify"
)

func TestGradePointsIntoTheReplyAsItWasSent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, reply string // the reply as it stands in the row, between the quotes
		want        verify.Graded
	}{
		{"plain", `It is 8000.`, verify.Graded{Outcome: task.Pass, Literal: task.Pass, Reason: "first12", Token: &verify.Token{Offset: 6, Length: 4}}},
		{"escapes are one character", `\u00e9\n8000`, verify.Graded{Outcome: task.Pass, Literal: task.Pass, Reason: "first12", Token: &verify.Token{Offset: 3, Length: 4}}},
		{"a surrogate pair", `\ud83d\ude00 8000`, verify.Graded{Outcome: task.Pass, Literal: task.Pass, Reason: "first12", Token: &verify.Token{Offset: 5, Length: 4}}},
		{"half a surrogate pair", `\ud83d 8000`, verify.Graded{Outcome: task.Pass, Literal: task.Pass, Reason: "first12", Token: &verify.Token{Offset: 4, Length: 4}}},
		{"bytes that are no UTF-8", "\xff\xfe \xc3 8000", verify.Graded{Outcome: task.Pass, Literal: task.Pass, Reason: "first12", Token: &verify.Token{Offset: 5, Length: 4}}},
		{"a wrong value", `It is 7000.`, verify.Graded{Outcome: task.Fail, Literal: task.Fail, Reason: "no_match"}},
		{"nothing", ``, verify.Graded{Outcome: task.Fail, Literal: task.Fail, Reason: "empty"}},
	} {
		row := `{"id":"a","family":"arith.percent_of","prompt_sketch":"20% of 40,000","expected_value":"8000","decimals_asked":"2","reply":"` + tt.reply + `"}`
		got, err := verify.Grade([]byte(row))
		tt.want.ID = "a"
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: Grade: %v, (-want +got):\n%s", tt.name, err, diff)
		}
	}
}

func TestGradeNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := map[string]any{
		"id": "a", "family": "unit.km_mile", "prompt_sketch": "5 miles in km", "expected_value": "8.05", "decimals_asked": "2", "reply": "8.05 km",
		"right_outcome": "pass", "debatable": true, "literal_first12_outcome": "pass", "clear_under_spec": true, "why": "", "source": "",
	}
	for _, tt := range []struct {
		member string
		value  any // nil: without it
		want   string
	}{
		{"why", nil, ""},
		{"id", nil, "id is missing"},
		{"id", 1, "id is not a string"},
		{"reply", nil, "reply is missing"},
		{"reply", 1, "reply is not a string"},
		{"reply", []string{"8.05"}, "reply is not a string"},
		{"outcome", "pass", "outcome does not belong here"},
		{"family", "sport.score", `family is "sport.score", which no task belongs to`},
		{"family", "", `family is "", which no task belongs to`},
		{"expected_value", "", "expected_value is empty"},
		{"expected_value", "eight", `expected_value is "eight", which is no decimal`},
		{"expected_value", "1e999999999", `expected_value is "1e999999999", which is no decimal`},
		{"expected_value", "1/0", `expected_value is "1/0", which is no decimal`},
		{"decimals_asked", "", `decimals_asked is "", neither a count of decimals nor exact`},
		{"decimals_asked", "-1", `decimals_asked is "-1", neither a count of decimals nor exact`},
		{"decimals_asked", "1000000000", `decimals_asked is "1000000000", neither a count of decimals nor exact`},
	} {
		row := maps.Clone(good)
		row[tt.member] = tt.value
		if tt.value == nil {
			delete(row, tt.member)
		}
		data, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		_, err = verify.Grade(data)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s = %v: Grade: %v, want no error", tt.member, tt.value, err)
		case tt.want != "" && (!errors.Is(err, domain.ErrInvalid) || domain.Sentence(err) != tt.want):
			t.Errorf("%s = %v: Grade: %v, want %s", tt.member, tt.value, err, tt.want)
		}
	}
	for _, row := range []string{``, `null`, `{"id":"a"`, `{"id":"a","reply":"` + "\n" + `"}`} {
		if _, err := verify.Grade([]byte(row)); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("Grade(%q): %v, want a domain.ErrInvalid", row, err)
		}
	}
}

// Two mebibytes of whatever an agent may send are marked as well.
func TestGradeHostileReplies(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	for name, reply := range map[string]string{
		"digits":             strings.Repeat("7", size),
		"a huge exponent":    "1e999999999",
		"deep JSON":          strings.Repeat("[", size),
		"bytes of no UTF-8":  strings.Repeat("\xff", size),
		"alternating bytes":  strings.Repeat("a\xff", size/2),
		"zero-width letters": strings.Repeat("\u200b", size/3),
		"overrides":          strings.Repeat("\u202e1", size/4),
	} {
		row := `{"id":"a","family":"arith.percent_of","prompt_sketch":"20% of 40,000","expected_value":"8000","decimals_asked":"2","reply":"` + reply + `"}`
		if got, err := verify.Grade([]byte(row)); err != nil || got.Outcome != task.Fail {
			t.Errorf("%s: Grade = %+v, %v, want a fail", name, got, err)
		}
	}
}

func FuzzGrade(f *testing.F) {
	f.Add([]byte(`{"id":"a","family":"unit.km_mile","prompt_sketch":"5 miles in km","expected_value":"8.05","decimals_asked":"2","reply":"8.05 km"}`))
	f.Add([]byte("{\"id\":\"a\",\"family\":\"selector\",\"prompt_sketch\":\"\",\"expected_value\":\"0xa9059cbb\",\"decimals_asked\":\"\",\"reply\":\"\xff\\ud83d a9059cbb\"}"))
	f.Fuzz(func(t *testing.T, row []byte) {
		g, err := verify.Grade(row)
		if err != nil {
			if !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("Grade(%q): %v, want a domain.ErrInvalid", row, err)
			}
			return
		}
		if g.Token != nil && (g.Token.Offset < 0 || g.Token.Length <= 0 || g.Token.Offset+g.Token.Length > len(row)) {
			t.Errorf("Grade(%q) points at %+v", row, *g.Token)
		}
	})
}
