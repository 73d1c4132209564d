package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	operatorapi "github.com/karatum/mystery/api/operator"
	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// From when on something is worth a warning, and when it is a failure.
const (
	clockWarns    = 2 * time.Second  // what a process that sends may be off
	behindWarns   = time.Minute      // read models that nobody brings on
	unsealedWarns = 90 * time.Minute // a batch closes at five past each hour
	unsealedFails = 6 * time.Hour
	dueWarns      = time.Hour // verify warns of a day that is opened an hour late
	dueFails      = 24 * time.Hour
)

// vitals examines what the programme does, from its database.
func vitals(ctx context.Context, c assembly.Config, prog *assembly.Programme) []check {
	checks := []check{logEnds(prog.CompareHeads(ctx))}
	now := prog.Now()
	list, err := prog.ReadModels(ctx)
	if err != nil {
		return append(checks, check{"read models", "fail", domain.Sentence(err)})
	}
	checks = append(checks, readModels(list, now))
	v, err := prog.Vitals(ctx)
	if err != nil {
		return append(checks, check{"shopper", "fail", domain.Sentence(err)})
	}
	every, err := c.CheckpointEvery()
	if err != nil {
		return append(checks, check{"public log", "fail", domain.Sentence(err)})
	}
	return append(checks, clock(v.Clock), publicLog(v.PublicLog, every, now), commits(v.Open, prog.Attester != nil, now), shopper(v, now))
}

func clock(offset time.Duration) check {
	const name = "clock"
	way := "behind"
	if offset < 0 {
		way = "ahead of"
	}
	detail := fmt.Sprintf("this machine's is %s %s the database's, by which everything goes", offset.Abs().Round(time.Millisecond), way)
	if offset.Abs() > clockWarns {
		return check{name, "warn", detail + "; set it, and have it kept (NTP): certificates of hosts are judged by it"}
	}
	return check{name, "ok", detail}
}

// logEnds says whether log and database belong together.
func logEnds(end uint64, err error) check {
	const name = "log"
	switch {
	case err != nil:
		return check{name, "fail", domain.Sentence(err)}
	case end == 0:
		return check{name, "ok", "it holds what the database has taken from it last"}
	}
	return check{name, "ok", fmt.Sprintf("it ends at position %d, and holds what the database has taken from it last", end)}
}

func readModels(list []projections.Standing, now time.Time) check {
	const name = "read models"
	var wrong []string
	for i := range list {
		s := &list[i]
		if n := len(s.Parked); n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s leaves out %d streams (projections status says why)", s.Name, n))
		}
		if s.Oldest.IsZero() || s.Rebuilding {
			continue
		}
		if age := now.Sub(s.Oldest); age > behindWarns {
			wrong = append(wrong, fmt.Sprintf("%s is %s behind (is serve running?)", s.Name, age.Round(time.Second)))
		}
	}
	if len(wrong) > 0 {
		return check{name, "warn", strings.Join(wrong, ", ")}
	}
	return check{name, "ok", fmt.Sprintf("all %d are where the log is", len(list))}
}

func publicLog(s publiclog.Standing, every time.Duration, now time.Time) check {
	const name = "public log"
	switch {
	case s.Published == 0 && s.Size == 0:
		return check{name, "ok", "nothing is in it yet"}
	case s.Published == 0:
		return check{name, "warn", fmt.Sprintf("%d records, and no checkpoint yet; it is signed where the key of the log is", s.Size)}
	}
	detail := fmt.Sprintf("%d records, %d of them under the checkpoint of %s", s.Size, s.Published, s.Signed.Format(time.RFC3339))
	if s.Published < s.Size && now.Sub(s.Signed) > 2*every+time.Minute {
		return check{name, "warn", detail + "; a newer one is overdue: see that serve runs where the key of the log is, and that enough witnesses answer"}
	}
	return check{name, "ok", detail}
}

// commits says how long the oldest commit has waited for its batch.
func commits(oldest time.Time, attests bool, now time.Time) check {
	const name = "commits"
	switch {
	case oldest.IsZero():
		return check{name, "ok", "each is in a batch"}
	case !attests:
		return check{name, "ok", "they are in no batches, for nothing is attested"}
	}
	age := now.Sub(oldest)
	c := check{name, "ok", fmt.Sprintf("the oldest that is in no batch was made %s ago", age.Round(time.Second))}
	switch {
	case age > unsealedFails:
		c.Status = "fail"
	case age > unsealedWarns:
		c.Status = "warn"
	default:
		return c
	}
	c.Detail += "; tasks wait until their plan is attested, and are missed: see that work runs, and what attesting says"
	return c
}

// shopper says what is due and was not done.
func shopper(v operatorapi.Vitals, now time.Time) check {
	const name = "shopper"
	s := v.Shopper
	moment := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.Format(time.RFC3339)
	}
	c := check{name, "ok", fmt.Sprintf("%d active consents, %d tasks under way; last sent %s, last outcome %s", s.Consents, s.InFlight, moment(s.LastSent), moment(s.LastEnded))}
	if s.Unplanned > 0 {
		c.Status = "warn"
		c.Detail += fmt.Sprintf("; today has no plan for %d of them, so their tasks count as missed", s.Unplanned)
	}
	if s.OldestDue.IsZero() {
		return c
	}
	late := now.Sub(s.OldestDue)
	c.Detail += fmt.Sprintf("; %d steps are due, the oldest since %s", s.Due, moment(s.OldestDue))
	switch {
	case late > dueFails:
		c.Status = "fail"
	case late > dueWarns:
		c.Status = "warn"
	default:
		return c
	}
	c.Detail += ": see that work runs, and what it logs"
	return c
}
