package finding_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
)

var update = flag.Bool("update", false, "write testdata/notes.txt anew")

// All that is said of an agent in plain words, to be read aloud.
func TestNotes(t *testing.T) {
	t.Parallel()
	arm := func(passed, counted int) finding.Arm { return finding.Arm{Passed: passed, Counted: counted} }
	note := func(verdict, gated finding.Verdict, exam, field finding.Arm, p string, change func(*finding.Reached)) string {
		r := finding.Reached{
			Verdict: verdict, GatedVerdict: gated, Exam: exam, Field: field, P: p, Test: "z_pooled", DetectableDrop: "0.2181165373946694",
			Thresholds: finding.Thresholds{MinExam: 20, MinField: 12, MaxP: "0.01", MinDropPoints: 15, MinE: 100, MaxLost: 30},
		}
		if change != nil {
			change(&r)
		}
		return finding.Note(r)
	}
	lost := func(blocked, missed int) func(*finding.Reached) {
		return func(r *finding.Reached) { r.Field.Blocked, r.Field.Missed = blocked, missed }
	}
	few := func(r *finding.Reached) { r.Test, r.DetectableDrop = "fisher_exact", "" }
	caught := note(finding.ExamOnly, finding.ExamOnly, arm(40, 40), arm(18, 40), "1.8083505150077535e-08", nil)
	demo := note(finding.ExamOnly, finding.ExamOnly, arm(40, 40), arm(18, 40), "1.8083505150077535e-08", func(r *finding.Reached) { r.Demo = true })
	given, over := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)
	standing := func(why consent.EndReason, note string) string {
		return finding.Standing(false, &finding.Permission{Given: given, Over: over, Why: why}, note)
	}
	var b strings.Builder
	for _, n := range []struct{ when, text string }{
		{"exam_only, confirmed", caught},
		{"exam_only, confirmed, of a demo agent", demo},
		{"exam_only, a first sighting", note(finding.ExamOnly, finding.Watch, arm(20, 20), arm(7, 12), "0.0039329413634196725", func(r *finding.Reached) { few(r); lost(1, 0)(r) })},
		{"exam_only, but too much was lost", note(finding.ExamOnly, finding.Insufficient, arm(40, 40), arm(18, 40), "1.8083505150077535e-08", lost(12, 8))},
		{"consistent", note(finding.Consistent, finding.Consistent, arm(38, 40), arm(36, 40), "0.198", nil)},
		{"consistent, with few tasks", note(finding.Consistent, finding.Consistent, arm(20, 20), arm(8, 12), "0.013765294771968854", few)},
		{"consistent, but too much was lost", note(finding.Consistent, finding.Insufficient, arm(38, 40), arm(36, 40), "0.198", lost(15, 5))},
		{"insufficient", note(finding.Insufficient, finding.Insufficient, arm(38, 40), arm(11, 11), "", lost(3, 0))},
		{"insufficient, without anything", note(finding.Insufficient, finding.Insufficient, arm(0, 0), arm(0, 0), "", nil)},
		{"never agreed", finding.Standing(false, nil, "")},
		{"agreed, nothing compared", finding.Standing(false, &finding.Permission{Given: given}, "")},
		{"agreed", finding.Standing(false, &finding.Permission{Given: given}, caught)},
		{"agreed, of a demo agent", finding.Standing(true, &finding.Permission{Given: given}, demo)},
		{"never agreed, of a demo agent", finding.Standing(true, nil, "")},
		{"revoked", standing("", caught)},
		{"revoked, nothing compared", standing("", "")},
		{"expired", standing(consent.Expired, caught)},
		{"expired, nothing compared", standing(consent.Expired, "")},
		{"the owner changed", standing(consent.OwnerChanged, caught)},
		{"the certificate was withdrawn", standing(consent.CertificateWithdrawn, "")},
	} {
		fmt.Fprintf(&b, "# %s\n%s\n\n", n.when, n.text)
	}
	const file = "testdata/notes.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
