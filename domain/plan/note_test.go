package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// Each reason is listed once and has its sentence, and whatever other packages give as a
// reason is listed.
func TestReasons(t *testing.T) {
	t.Parallel()
	seen := make(map[plan.Reason]bool)
	for _, r := range plan.Reasons() {
		if s := r.Sentence(); seen[r] || !strings.HasSuffix(s, ".") || strings.Contains(s, "\n") {
			t.Errorf("%s is listed twice or means %q", r, s)
		}
		seen[r] = true
	}
	for _, r := range []plan.Reason{
		plan.Reason(task.TooMany), plan.Reason(task.UnusableName), plan.Reason(task.SkillLeftOut), plan.Reason(task.ChangesState),
		plan.Reason(task.UnfitSchema), plan.Reason(task.NoTask),
		plan.Reason(shop.OperatorLate), plan.Reason(shop.Paused), plan.Reason(shop.ProofStale), plan.Reason(shop.Unattested),
		plan.Reason(shop.HostBusy), plan.Reason(shop.HostLost), plan.Reason(shop.ConsentOver),
	} {
		if !seen[r] {
			t.Errorf("%s is not listed", r)
		}
	}
	if s := plan.Reason("boredom").Sentence(); s != "" {
		t.Errorf("boredom means %q, want nothing", s)
	}
}

func TestNotesOnDay(t *testing.T) {
	t.Parallel()
	missed := func(r shop.MissedReason) shop.Result { return shop.Result{}.With(shop.Missed{Reason: r}) }
	cancelled := func(r shop.CancelReason) shop.Result { return shop.Result{}.With(shop.Cancelled{Reason: r}) }
	judged := shop.Result{}.With(shop.Judged{Outcome: task.Blocked, Rule: string(shop.HostBusy)})
	list := plan.Eligible{Endpoints: []plan.EligibleEndpoint{{ID: "ep_0"}}}
	for _, tt := range []struct {
		name    string
		planned bool
		list    plan.Eligible
		limit   int
		results []shop.Result
		want    []plan.Note
	}{
		{name: "all sent", planned: true, list: list, limit: 3, results: []shop.Result{judged, judged, judged}},
		{name: "no task", planned: true, list: list, limit: 3},
		{name: "nothing to ask for", planned: true},
		{name: "nothing left of the week", planned: true, list: list, want: []plan.Note{{Reason: plan.LimitReached}}},
		{name: "not planned", list: list, limit: 3, want: []plan.Note{{Reason: plan.NoPlan}}},
		{
			name: "some not sent", planned: true, list: list, limit: 9,
			results: []shop.Result{
				cancelled(shop.HostLost), missed(shop.HostBusy), judged, missed(shop.OperatorLate), missed(shop.HostBusy), cancelled(shop.ConsentOver),
				missed(shop.Paused), missed(shop.Unattested), missed(shop.ProofStale),
			},
			want: []plan.Note{
				{Reason: "operator_late", Count: 1},
				{Reason: "paused", Count: 1},
				{Reason: "proof_stale", Count: 1},
				{Reason: "unattested", Count: 1},
				{Reason: "host_busy", Count: 2},
				{Reason: "host_lost", Count: 1},
				{Reason: "consent_over", Count: 1},
			},
		},
	} {
		got := plan.NotesOnDay(tt.planned, tt.list, tt.limit, tt.results)
		if diff := cmp.Diff(append([]plan.Note{}, tt.want...), got); diff != "" {
			t.Errorf("%s: NotesOnDay (-want +got):\n%s", tt.name, diff)
		}
	}
}

// noting opens a day with notes.
func noting(notes []plan.Note) error {
	_, err := plan.Decider.Decide(plan.State{}, plan.Open{Consent: "cns_a", Day: 7, Notes: notes})
	return err
}

// Notes repeat what agents call their skills, in public and for ever: so they keep
// to one line of plain characters, however an agent spells and however much it has.
func TestNotesAreTame(t *testing.T) {
	t.Parallel()
	wild := plan.Offer{ID: "ep_0", Surface: task.Surface{Kind: task.A2A}}
	for i := range 40 {
		wild.Surface.Skills = append(wild.Surface.Skills, task.Skill{ID: "\u202epoetry\n\x00\"<script>" + strings.Repeat("x", 80+i)})
	}
	_, notes := plan.EligibleOf([]plan.Offer{wild}, nil, plan.Means{})
	if len(notes) != 2 || notes[0].Reason != "unusable_name" || notes[1].Reason != "no_task" {
		t.Fatalf("notes = %+v, want one on names that are too long and one on tasks", notes)
	}
	for _, n := range notes {
		if text := strings.Join(n.Names, ""); n.Count != 29 && n.Count != 11 || len(n.Names) != min(n.Count, 12) || len(text) > 2000 {
			t.Errorf("the note on %d has %d names with %d bytes", n.Count, len(n.Names), len(text))
		}
	}
	if err := noting(notes); err != nil {
		t.Errorf("the notes are refused: %v", err)
	}
}

// A day can be opened whatever an agent calls its skills.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"poetry", "", "\x00\n\"\\", "\u202e", "\xe2", strings.Repeat("x", 47) + "\xe2\x80", strings.Repeat("…", 40)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		_, notes := plan.EligibleOf([]plan.Offer{{ID: "ep_0", Surface: task.Surface{Kind: task.A2A, Skills: []task.Skill{{ID: name}}}}}, []string{"poetry"}, plan.Means{})
		if err := noting(notes); err != nil {
			t.Fatalf("the notes on %q are refused: %v: %+v", name, err, notes)
		}
		for _, n := range notes {
			for _, c := range strings.Join(n.Names, "") {
				if c < ' ' || c > '~' {
					t.Errorf("the note on %q holds %U", name, c)
				}
			}
		}
	})
}
