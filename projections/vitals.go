package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
)

// Vitals are the signs by which an operator sees whether the shopper is alive, and what
// waits for it. They tell when tasks are sent, so they are for the operator alone.
type Vitals struct {
	Consents  int       // that are active
	Unplanned int       // active consents whose plan of today is missing
	InFlight  int       // tasks that were sent and have no outcome yet
	LastSent  time.Time // when a task was sent; zero if none ever was
	LastEnded time.Time // when a slot got its outcome; zero if none ever did
	Due       int       // steps that ought to have been taken, see Vitals
	OldestDue time.Time // when the first of them was due; zero if there is none
}

// The margins that the shopper has, as package worker uses them.
const (
	lostMargin = time.Minute // behind its deadline a task without an outcome is lost
	openMargin = time.Hour   // behind the day and the reveal delay, the day is opened
)

// Vitals returns the signs of life at a moment. What is due by then is, of every consent
// that is not settled: the outcome of a task a minute behind its deadline, its reveal
// when the delay that the owner asked for is over, and the opening of a day an hour behind
// that. Whatever else was not done, such as a slot that was never sent, shows at the
// latest as a day that is not opened. What becomes of a payment may take longer and is
// left out.
func (d Due) Vitals(ctx context.Context, now time.Time) (v Vitals, err error) {
	consents, err := d.Consents(ctx)
	if err != nil {
		return v, fmt.Errorf("read the consents: %w", err)
	}
	terms := make(map[string]DueConsent, len(consents))
	var active []string
	today := domain.DayOf(now)
	for _, c := range consents {
		p := c.Granted.Payload
		terms[c.Granted.Consent] = c
		if !c.OverAt.IsZero() {
			continue
		}
		v.Consents++
		if p.FirstDay <= today && today <= p.LastDay {
			active = append(active, c.Granted.Consent)
		}
	}
	due := func(id string, at time.Time, endsWithConsent bool) {
		if over := terms[id].OverAt; endsWithConsent && !over.IsZero() && over.Before(at) {
			at = over
		}
		if at.After(now) {
			return
		}
		v.Due++
		if v.OldestDue.IsZero() || at.Before(v.OldestDue) {
			v.OldestDue = at
		}
	}
	delay := func(id string) time.Duration {
		p := terms[id].Granted.Payload
		return p.RevealDelay()
	}
	err = Reader(d).snapshot(ctx, func(tx pgx.Tx) error {
		if err := v.scanMoments(ctx, tx, active, today); err != nil {
			return err
		}
		var id string
		var ended bool
		var sent time.Time
		rows, err := tx.Query(ctx, `
			select consent, ended is not null, sent from due_slots
			where state not in ('committed', 'revealed') and sent is not null and not paying`)
		if err != nil {
			return err
		}
		if _, err := pgx.ForEachRow(rows, []any{&id, &ended, &sent}, func() error {
			if ended {
				due(id, sent.Add(delay(id)), true)
			} else {
				due(id, sent.Add(consent.TaskDeadline+lostMargin), false)
			}
			return nil
		}); err != nil {
			return err
		}
		var day uint32
		if rows, err = tx.Query(ctx, `select consent, day from due_plans where not opened`); err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&id, &day}, func() error {
			due(id, domain.DayStart(day+1).Add(openMargin+delay(id)), true)
			return nil
		})
		return err
	})
	if err != nil {
		return v, fmt.Errorf("read the signs of life: %w", err)
	}
	return v, nil
}

func (v *Vitals) scanMoments(ctx context.Context, tx pgx.Tx, active []string, today uint32) error {
	var sent, ended *time.Time
	err := tx.QueryRow(ctx, `
		select (select max(sent) from due_slots where sent is not null), (select max(ended) from due_slots where ended is not null),
			(select count(*) from due_slots where state not in ('committed', 'revealed') and sent is not null and ended is null),
			(select count(*) from unnest($1::text[]) as a (consent)
				where not exists (select from due_plans p where p.consent = a.consent and p.day = $2))`, active, today).
		Scan(&sent, &ended, &v.InFlight, &v.Unplanned)
	v.LastSent, v.LastEnded = at(sent), at(ended)
	return err
}
