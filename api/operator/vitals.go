package operator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/karatum/mystery/projections"
	"github.com/karatum/mystery/projections/publiclog"
)

// Vitals are what the operator watches beside the read models.
type Vitals struct {
	Shopper   projections.Vitals
	PublicLog publiclog.Standing
	Open      time.Time     // when the oldest commit that is in no batch was made; zero if there is none
	Attesting string        // the state of the attester; "" if nothing is attested
	Pauses    int           // scopes that are paused
	Clock     time.Duration // by which this machine's clock is behind the database's
	Conns     int           // connections to the database that are in use
	IdleConns int
	MaxConns  int
}

var (
	vitalsUp   = desc("vitals_up", "Whether the signs of life could be read from the database.")
	consents   = desc("shopper_active_consents", "Consents that are active.")
	unplanned  = desc("shopper_unplanned_consents", "Active consents that have no plan for today.")
	inFlight   = desc("shopper_tasks_in_flight", "Tasks that were sent and have no outcome yet.")
	lastSent   = desc("shopper_last_send_timestamp_seconds", "When a task was sent last, by any process. Absent before the first.")
	lastEnded  = desc("shopper_last_outcome_timestamp_seconds", "When a slot got its outcome last, by any process. Absent before the first.")
	dueSteps   = desc("shopper_due_steps", "Outcomes, reveals and openings of days that are due and were not made.")
	oldestDue  = desc("shopper_oldest_due_seconds", "How long the oldest of these has been due; 0 if there is none.")
	pauses     = desc("programme_paused_scopes", "Scopes of the programme that are paused.")
	oldestOpen = desc("commits_oldest_unsealed_seconds", "Age of the oldest commit that is in no batch; 0 if there is none.")
	attester   = desc("attester_state", "1 for the state that attesting is in; absent if nothing is attested.", "state")
	logSize    = desc("public_log_size", "Leaves of the public log.")
	published  = desc("public_log_published_size", "Leaves of the public log that the latest checkpoint covers.")
	signedAt   = desc("public_log_last_checkpoint_timestamp_seconds", "When the latest checkpoint was signed. Absent before the first.")
	clock      = desc("database_clock_offset_seconds", "By how much the database's clock, which is programme time, is ahead of this machine's.")
	conns      = desc("database_connections", "Connections to the database of this process, by what they are.", "state")
	maxConns   = desc("database_max_connections", "The most connections that this process opens to the database.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("mystery_"+name, help, labels, nil)
}

// signs collects the vitals.
type signs struct{ *server }

// Describe implements [prometheus.Collector].
func (*signs) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		vitalsUp, consents, unplanned, inFlight, lastSent, lastEnded, dueSteps, oldestDue, pauses, oldestOpen, attester,
		logSize, published, signedAt, clock, conns, maxConns,
	} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *signs) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) // a collector is given none
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	moment := func(d *prometheus.Desc, t time.Time) {
		if !t.IsZero() {
			gauge(d, float64(t.UnixMilli())/1000)
		}
	}
	now := s.Now()
	age := func(d *prometheus.Desc, t time.Time) {
		if t.IsZero() {
			gauge(d, 0)
			return
		}
		gauge(d, max(0, now.Sub(t).Seconds()))
	}
	v, err := s.Vitals(ctx)
	gauge(clock, v.Clock.Seconds())
	gauge(conns, float64(v.Conns), "in_use")
	gauge(conns, float64(v.IdleConns), "idle")
	gauge(maxConns, float64(v.MaxConns))
	if err != nil {
		s.Logger.ErrorContext(ctx, "the signs of life cannot be read", "err", err)
		gauge(vitalsUp, 0)
		return
	}
	gauge(vitalsUp, 1)
	gauge(consents, float64(v.Shopper.Consents))
	gauge(unplanned, float64(v.Shopper.Unplanned))
	gauge(inFlight, float64(v.Shopper.InFlight))
	moment(lastSent, v.Shopper.LastSent)
	moment(lastEnded, v.Shopper.LastEnded)
	gauge(dueSteps, float64(v.Shopper.Due))
	age(oldestDue, v.Shopper.OldestDue)
	gauge(pauses, float64(v.Pauses))
	age(oldestOpen, v.Open)
	if v.Attesting != "" {
		gauge(attester, 1, v.Attesting)
	}
	gauge(logSize, float64(v.PublicLog.Size))
	gauge(published, float64(v.PublicLog.Published))
	moment(signedAt, v.PublicLog.Signed)
}
