package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// The promise on false alarms and on what is caught, as the command prints it.
func TestSimulate(t *testing.T) {
	t.Parallel()
	var out, again, errs bytes.Buffer
	args := []string{"simulate", "--runs", "400", "--seed", "3", "--json"}
	if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != exitOK {
		t.Fatalf("run(%q) = %d: %s", args, code, &errs)
	}
	var list []scenario
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Incidents >= 4 || list[1].Incidents < 360 || !list[0].Holds || !list[1].Holds {
		t.Errorf("simulate = %+v, want fewer than 4 false alarms in 400 and at least 360 caught", list)
	}
	if run(t.Context(), args, strings.NewReader(""), &again, &errs); again.String() != out.String() {
		t.Errorf("equal seeds give\n%s and\n%s", &out, &again)
	}
	for _, args := range [][]string{{"simulate", "--runs", "0"}, {"simulate", "x"}, {"simulate", "--seed", "-1"}} {
		if code := run(t.Context(), args, strings.NewReader(""), &again, &errs); code != exitUsage {
			t.Errorf("run(%q) = %d, want %d", args, code, exitUsage)
		}
	}
}
