package operator

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Counters are what one process counts of its own work, from its start on. Their methods
// may be called from several goroutines.
type Counters struct {
	build       *prometheus.GaugeVec
	requests    *prometheus.HistogramVec
	submissions *prometheus.CounterVec
	events      *prometheus.CounterVec
	cycles      *prometheus.CounterVec
	lastCycle   *prometheus.GaugeVec
}

// NewCounters returns what has counted nothing yet, in a program of the given version.
func NewCounters(version string) *Counters {
	outcome := []string{"outcome"}
	c := &Counters{
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mystery_build_info",
			Help: "1, with the version of the program.",
		}, []string{"version"}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mystery_http_request_duration_seconds",
			Help:    "Time that requests of the public interface took, by route, method and status.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"route", "method", "status"}),
		submissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mystery_producer_requests_total",
			Help: "Requests of producers, by outcome: recorded, known, or the type of the problem.",
		}, outcome),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mystery_producer_events_total",
			Help: "Events in requests of producers that were answered with recorded or known.",
		}, outcome),
		cycles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mystery_worker_cycles_total",
			Help: "Rounds of the shopper's cycle in this process, by outcome: ok or failed.",
		}, outcome),
		// A vector without labels is absent until it is set, unlike a gauge, which would
		// say 1970.
		lastCycle: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mystery_worker_last_cycle_timestamp_seconds",
			Help: "When a round of the shopper's cycle was last completed without an error in this process. Absent before the first.",
		}, nil),
	}
	c.build.WithLabelValues(version).Set(1)
	return c
}

// Submission counts a request of a producer, with so many events in it that were taken.
func (c *Counters) Submission(outcome string, events int) {
	c.submissions.WithLabelValues(outcome).Inc()
	if events > 0 {
		c.events.WithLabelValues(outcome).Add(float64(events))
	}
}

// Request counts a request of the public interface. The route is its pattern and not its
// path, so that there are few.
func (c *Counters) Request(route, method string, status int, took time.Duration) {
	c.requests.WithLabelValues(route, method, strconv.Itoa(status)).Observe(took.Seconds())
}

// Cycle counts a round of the shopper's cycle that ended at a moment of programme time.
func (c *Counters) Cycle(at time.Time, err error) {
	if err != nil {
		c.cycles.WithLabelValues("failed").Inc()
		return
	}
	c.cycles.WithLabelValues("ok").Inc()
	c.lastCycle.WithLabelValues().Set(float64(at.UnixMilli()) / 1000)
}

// Describe implements [prometheus.Collector].
func (c *Counters) Describe(ch chan<- *prometheus.Desc) {
	for _, p := range c.parts() {
		p.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (c *Counters) Collect(ch chan<- prometheus.Metric) {
	for _, p := range c.parts() {
		p.Collect(ch)
	}
}

func (c *Counters) parts() []prometheus.Collector {
	return []prometheus.Collector{c.build, c.requests, c.submissions, c.events, c.cycles, c.lastCycle}
}
