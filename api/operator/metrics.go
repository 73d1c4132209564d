package operator

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapeTimeout bounds what one reading of the metrics may take.
const scrapeTimeout = 10 * time.Second

// metrics returns the handler of the metrics: those of the process, where the read
// models stand and what waits for the shopper at the moment they are asked for, and what
// the process has counted. docs/OPERATIONS.md lists them.
func (s *server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&standings{server: s},
	)
	if s.Vitals != nil {
		registry.MustRegister(&signs{server: s})
	}
	if s.Counters != nil {
		registry.MustRegister(s.Counters)
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
}

var (
	byName = []string{"projection"}

	position = prometheus.NewDesc("mystery_projection_position", "Position in the ledger that a read model has reached.", byName, nil)
	behind   = prometheus.NewDesc("mystery_projection_behind", "Positions in the ledger that a read model has not reached.", byName, nil)
	age      = prometheus.NewDesc("mystery_projection_age_seconds", "Age of the oldest record that a read model has not reached.", byName, nil)
	rate     = prometheus.NewDesc("mystery_projection_rate", "Records a second that a read model took while it was last behind.", byName, nil)
	parked   = prometheus.NewDesc("mystery_projection_parked_streams", "Streams that a read model leaves out until they are tried again.", byName, nil)
	rebuilds = prometheus.NewDesc("mystery_projection_rebuilding", "Whether a read model is made anew.", byName, nil)
	up       = prometheus.NewDesc("mystery_projections_up", "Whether it can be told where the read models stand.", nil, nil)
)

// standings collects where the read models stand.
type standings struct{ *server }

// Describe implements [prometheus.Collector].
func (*standings) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{position, behind, age, rate, parked, rebuilds, up} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *standings) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) // a collector is given none
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	list, err := s.ReadModels.Status(ctx)
	if err != nil {
		s.Logger.ErrorContext(ctx, "the read models are not measured", "err", err)
		gauge(up, 0)
		return
	}
	gauge(up, 1)
	for _, p := range Projections(list, s.Now()) {
		gauge(position, float64(p.Position), p.Name)
		gauge(behind, float64(p.Behind), p.Name)
		gauge(age, p.Age, p.Name)
		gauge(rate, p.Rate, p.Name)
		gauge(parked, float64(len(p.Parked)), p.Name)
		rebuilding := 0.0
		if p.Rebuilding != nil {
			rebuilding = 1
		}
		gauge(rebuilds, rebuilding, p.Name)
	}
}
