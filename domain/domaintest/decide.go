package domaintest

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
)

// A Case is a row in the table of a decider: given a history, when a command
// comes, then these events follow, or an error that matches Err.
type Case[C any, E domain.Event] struct {
	Name  string
	Given []E
	When  C
	Then  []E
	Err   error
}

// Decide holds a decider against its table. Two events are equal if their types
// and their bytes are. Whatever was decided is folded in, for Evolve must take
// what Decide gives, and deciding must leave the state as it was.
func Decide[S, C any, E domain.Event](t *testing.T, d domain.Decider[S, C, E], cases []Case[C, E]) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.Name, func(t *testing.T) {
			t.Parallel()
			state := d.Replay(tt.Given...)
			got, err := d.Decide(state, tt.When)
			if !errors.Is(err, tt.Err) {
				t.Fatalf("Decide(%T) = %v, %v, want error %v", tt.When, got, err, tt.Err)
			}
			if diff := cmp.Diff(lines(t, tt.Then), lines(t, got)); diff != "" {
				t.Errorf("Decide(%T) (-want +got):\n%s", tt.When, diff)
			}
			again, _ := d.Decide(state, tt.When)
			if diff := cmp.Diff(lines(t, got), lines(t, again)); diff != "" {
				t.Errorf("Decide(%T) decides otherwise the second time:\n%s", tt.When, diff)
			}
			d.Replay(slices.Concat(tt.Given, got)...)
		})
	}
}

// lines writes each event as its type and its JSON.
func lines[E domain.Event](t *testing.T, events []E) []string {
	t.Helper()
	list := []string{}
	for _, e := range events {
		data, err := domain.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(e.EventType())+" "+string(data))
	}
	return list
}
