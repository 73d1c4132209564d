package finding

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/karatum/mystery/domain/consent"
)

// demoMark stands before all that is said of an agent of Karatum's own.
const demoMark = "DEMO. "

// Note says in plain words what a comparison came to, with its numbers, and what it does
// not say. It follows from the rest of r.
func Note(r Reached) string {
	said := []string{fmt.Sprintf("Exam: %s. Unannounced tasks in production: %s.", share(r.Exam), share(r.Field))}
	if r.Demo {
		said[0] = demoMark + said[0]
	}
	switch n := r.Field.Blocked + r.Field.Missed + r.Field.Cancelled; n {
	case 0:
	case 1:
		said = append(said, "One more was blocked, missed or cancelled, and does not count.")
	default:
		said = append(said, fmt.Sprintf("%d more were blocked, missed or cancelled, and do not count.", n))
	}
	switch r.Verdict {
	case ExamOnly:
		said = append(said, fmt.Sprintf("The agent does significantly worse where it is not examined; chance alone would hardly do that (one-sided p %s, %s; the rule asks for p < %s and a drop of at least %d points).",
			rounded(r.P), testName(r.Test), r.Thresholds.MaxP, r.Thresholds.MinDropPoints))
		switch r.GatedVerdict {
		case Insufficient:
			said = append(said, tooMuchLost(r))
		case Watch, Consistent:
			said = append(said, "This is a first sighting, which may as well go away: it is confirmed when a test that holds however often one looks says so too.")
		case ExamOnly:
		}
		said = append(said, "That says neither why, nor that anybody meant it: the tasks of the exam are others than those in production.")
	case Consistent, Watch:
		said = append(said, fmt.Sprintf("No significant, material drop was found (one-sided p %s, %s).", rounded(r.P), testName(r.Test)))
		if r.GatedVerdict == Insufficient {
			said = append(said, tooMuchLost(r))
		}
		said = append(said, "That is no proof that there is none: "+unseen(r.DetectableDrop))
	case Insufficient:
		said = append(said, fmt.Sprintf("That is too little to compare: the rule asks for %d exam attempts and %d counted field tasks.",
			r.Thresholds.MinExam, r.Thresholds.MinField), "That says nothing of the agent, good or bad.")
	}
	return strings.Join(said, " ")
}

func tooMuchLost(r Reached) string {
	return fmt.Sprintf("But more than %d %% of the planned tasks were blocked or missed, so nothing follows from it: what was lost may have mattered.", r.Thresholds.MaxLost)
}

// unseen says how small a drop would not have been seen. detectable is the smallest that
// would, as a fraction, or "".
func unseen(detectable string) string {
	drop, err := strconv.ParseFloat(detectable, 64)
	if err != nil {
		return "with so few tasks, not even a large one would be seen 4 times in 5."
	}
	return fmt.Sprintf("with so many tasks, a drop has to be of %.0f points or more to be seen 4 times in 5.", math.Ceil(100*drop))
}

// testName is a test as people call it.
func testName(test string) string {
	switch test {
	case "z_pooled":
		return "pooled z-test"
	case "fisher_exact":
		return "Fisher's exact test"
	}
	return test
}

// rounded writes a p-value as people read it; the finding has all its digits.
func rounded(p string) string {
	const least = 1e-4
	f, err := strconv.ParseFloat(p, 64)
	switch {
	case err != nil:
		return "= " + p
	case f < least:
		return "< 0.0001"
	}
	return "= " + strconv.FormatFloat(f, 'g', 2, 64)
}

func share(a Arm) string {
	if a.Counted == 0 {
		return "no counted task"
	}
	// In tenths of a percent, rounded half up, without floating point.
	tenths := (2000*a.Passed + a.Counted) / (2 * a.Counted)
	return fmt.Sprintf("%d of %d passed (%d.%d %%)", a.Passed, a.Counted, tenths/10, tenths%10)
}

// A Permission is a consent to spot checks that an owner gave.
type Permission struct {
	Given time.Time
	Over  time.Time         // zero while it is in force
	Why   consent.EndReason // that it is over; "" if its owner revoked it
}

// Standing says in plain words how an agent stands to spot checks, as it stands on its
// certificate. p is the last permission, nil if there never was one; note is that of the
// last comparison, "" if there is none.
func Standing(demo bool, p *Permission, note string) string {
	if demo {
		return demoMark + standing(p, strings.TrimPrefix(note, demoMark))
	}
	return standing(p, note)
}

func standing(p *Permission, note string) string {
	if p == nil {
		return "The owner of this agent has never agreed to spot checks, so nobody has looked at how it does where it is not examined. " +
			"That speaks neither for it nor against it."
	}
	if p.Over.IsZero() {
		text := fmt.Sprintf("The owner agreed to spot checks on %s. ", p.Given.Format(time.DateOnly))
		if note == "" {
			return text + "Nothing has been compared yet."
		}
		return text + note
	}
	over := p.Over.Format(time.DateOnly)
	var text string
	switch p.Why {
	case "":
		text = fmt.Sprintf("The owner revoked the consent to spot checks on %s, and no task was sent since. That says nothing of why. ", over)
	case consent.Expired:
		text = fmt.Sprintf("The consent to spot checks ran out on %s and was not renewed, so no task was sent since. %s", over, unknownSince)
	default:
		text = fmt.Sprintf("The consent to spot checks ended on %s%s, and no task was sent since. %s", over, because(p.Why), unknownSince)
	}
	if note == "" {
		return text + "Nothing was compared before."
	}
	return text + "What was found before stands: " + note
}

// because says why a consent ended before its time, to be put behind the day on which it did.
func because(why consent.EndReason) string {
	switch why {
	case consent.OwnerChanged:
		return ", as the agent changed hands"
	case consent.CertificateWithdrawn:
		return ", as the agent's certificate was withdrawn"
	case consent.Expired:
	}
	return ""
}

const unknownSince = "That says nothing of how the agent does now. "
