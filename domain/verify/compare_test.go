package verify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/stats"
	"github.com/karatum/mystery/domain/verify"
)

func TestCompareTakesItsKinds(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		`{"x_exam":40,"n_exam":40,"x_field":18,"n_field":40}`:              `"verdict":"exam_only"`,
		`{"x_exam":40,"n_exam":40,"x_field":9,"n_field":12}`:               `"gated_verdict":"watch"`,
		`{"x_exam":40,"n_exam":40,"x_field":9,"n_field":12,"blocked":6}`:   `"gated_verdict":"insufficient"`,
		`{"x_exam":0,"n_exam":0,"x_field":0,"n_field":0}`:                  `"min_expected_exact":null,"test":null`,
		`{"x_exam":40,"n_exam":40,"x_field":0,"n_field":12}`:               `"min_expected_exact":"36/13","test":"fisher_exact","z":null`,
		`{"x_exam":2,"n_exam":3,"x_field":1,"n_field":3}`:                  `"drop_pp_exact":"100/3"`,
		`{"x_exam":40,"n_exam":40,"field_success_per_cycle":[0,3]}`:        `{"x_field":3,"n_field":6,`,
		`{"x_exam":0,"n_exam":0,"field_success_per_cycle":[3]}`:            `"test":null`,
		`{"tables":[[20,20,5,6],[10,20,12,40]]}`:                           `"may_come_from_the_mix":true`,
		`{"tables":[[8,8,6,6],[8,8,0,9]]}`:                                 `"mh_odds_ratio":null`,
		`{"sample":[1,3,-2.5e3]}`:                                          `"median":1,`,
		`{"sample":[-1e308,1e308]}`:                                        `"median":null`,
		`{"exam":[0],"field":[1]}`:                                         `"ratio_median":null,"ratio_p90":null,"prob_field_slower":1,`,
		`{"blocks":[[3,0]]}`:                                               `"log_e":[0]`,
		`{"x":0,"n":0}`:                                                    `"lo":0,"hi":1`,
		` {"x_exam":100000000,"n_exam":100000000,"x_field":0,"n_field":1}`: `"verdict":"insufficient"`,
	} {
		answer, err := verify.Compare([]byte(row))
		if err != nil {
			t.Errorf("Compare(%s): %v", row, err)
			continue
		}
		if got, err := json.Marshal(answer); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("Compare(%s) = %s, %v, want %s in it", row, got, err, want)
		}
	}
}

func TestCompareNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ row, want string }{
		{``, "the row is not a JSON object"},
		{`[]`, "the row is not a JSON object"},
		{`{}`, "n_exam is missing"},
		{`{"x_exam":1,"n_exam":1}`, "n_field is missing"},
		{`{"x_exam":2,"n_exam":1,"x_field":1,"n_field":1}`, "x_exam is 2, more than n_exam, 1"},
		{`{"x_exam":1,"n_exam":1,"x_field":2,"n_field":1}`, "x_field is 2, more than n_field, 1"},
		{`{"x_exam":-1,"n_exam":1,"x_field":1,"n_field":1}`, "x_exam is not a whole number"},
		{`{"x_exam":0.5,"n_exam":1,"x_field":1,"n_field":1}`, "x_exam is not a whole number"},
		{`{"x_exam":"1","n_exam":1,"x_field":1,"n_field":1}`, "x_exam is not a whole number"},
		{`{"x_exam":null,"n_exam":1,"x_field":1,"n_field":1}`, "x_exam is not a whole number"},
		{`{"x_exam":NaN,"n_exam":1,"x_field":1,"n_field":1}`, "the value of x_exam is not well-formed JSON"},
		{`{"x_exam":1,"n_exam":1000000000,"x_field":1,"n_field":1}`, "n_exam is 1000000000 and can be 100000000 at most"},
		{`{"x_exam":1,"n_exam":1e9,"x_field":1,"n_field":1}`, "n_exam is not a whole number"},
		{`{"x_exam":1,"n_exam":1,"x_field":1,"n_field":1,"blocked":100000000}`, "blocked is 100000000 and can be 99999999 at most"},
		{`{"x_exam":1,"n_exam":1,"x_field":1,"n_field":1,"n":1}`, "x is missing"},
		{`{"x_exam":1,"n_exam":1,"x_field":1,"n_field":1,"X_EXAM":1}`, "X_EXAM does not belong here"},
		{`{"x_exam":1,"n_exam":1,"n_exam":1,"x_field":1,"n_field":1}`, "n_exam comes twice"},
		{`{"x_exam":1,"n_exam":1,"field_success_per_cycle":[]}`, "field_success_per_cycle is empty"},
		{`{"x_exam":1,"n_exam":1,"field_success_per_cycle":[4]}`, "field_success_per_cycle[0] is not a whole number up to 3"},
		{`{"x_exam":1,"n_exam":1,"field_success_per_cycle":[1,null]}`, "field_success_per_cycle[1] is not a whole number up to 3"},
		{`{"x_exam":1,"n_exam":1,"x_field":1,"n_field":1,"field_success_per_cycle":[1]}`, "n_field does not belong here"},
		{`{"tables":[]}`, "tables is empty"},
		{`{"tables":1}`, "tables is not a list"},
		{`{"tables":[[1,1,1]]}`, "tables[0] is not a list of 4 whole numbers up to 100000000"},
		{`{"tables":[[1,1,1,1,1]]}`, "tables[0] is not a list of 4 whole numbers up to 100000000"},
		{`{"tables":[[1,1,1,1],[1,1,1,null]]}`, "tables[1] is not a list of 4 whole numbers up to 100000000"},
		{`{"tables":[[2,1,1,1]]}`, "tables[0] has x_exam 2, more than n_exam, 1"},
		{`{"tables":[[1,1,2,1]]}`, "tables[0] has x_field 2, more than n_field, 1"},
		{`{"tables":[[1,100000000,1,1],[1,1,1,1]]}`, "tables[1] brings an arm to more than 100000000 tasks"},
		{`{"tables":[` + strings.Repeat(`[1,1,1,1],`, 1000) + `[1,1,1,1]]}`, "tables has 1001 families and can have 1000 at most"},
		{`{"tables":[[1,1,1,1]],"sample":[1]}`, "sample does not belong here"},
		{`{"sample":[]}`, "sample is empty"},
		{`{"sample":[1,null]}`, "sample[1] is not a number"},
		{`{"sample":[1e999]}`, "sample[0] is not a number"},
		{`{"sample":[NaN]}`, "the value of sample is not well-formed JSON"},
		{`{"exam":[1]}`, "field is missing"},
		{`{"exam":[1],"field":[1,-1]}`, "field[1] is negative"},
		{`{"blocks":[[4,1]]}`, "blocks[0] is not a list of 2 whole numbers up to 3"},
		{`{"x":5,"n":4}`, "x is 5, more than n, 4"},
		{`{"n":4}`, "x is missing"},
	} {
		answer, err := verify.Compare([]byte(tt.row))
		if !errors.Is(err, domain.ErrInvalid) || domain.Sentence(err) != tt.want || answer != nil {
			t.Errorf("Compare(%.80s) = %v, %v, want the error %q", tt.row, answer, err, tt.want)
		}
	}
}

func FuzzCompare(f *testing.F) {
	for _, row := range []string{
		`{"x_exam":40,"n_exam":40,"x_field":18,"n_field":40,"blocked":3}`,
		`{"x_exam":40,"n_exam":40,"field_success_per_cycle":[0,3]}`,
		`{"tables":[[20,20,5,6],[10,20,12,40]]}`,
		`{"sample":[1,3]}`,
		`{"exam":[1,2,3],"field":[2,3,4]}`,
		`{"blocks":[[3,0],[3,1]]}`,
		`{"x":18,"n":40}`,
	} {
		f.Add([]byte(row))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		answer, err := verify.Compare(row)
		if err != nil {
			if !errors.Is(err, domain.ErrInvalid) {
				t.Errorf("Compare(%q): %v, want a domain.ErrInvalid", row, err)
			}
			return
		}
		if _, err := json.Marshal(answer); err != nil {
			t.Errorf("Compare(%q) = %+v, which is no JSON: %v", row, answer, err)
		}
	})
}

func ExampleCompareCounts() {
	f := verify.CompareCounts(stats.Counts{N: 40, Passes: 40}, stats.Counts{N: 12, Passes: 9}, 0)
	fmt.Printf("%s, %s: E is %.1f\n", f.Verdict, f.Gated, f.E)
	// Output: exam_only, watch: E is 20.6
}
