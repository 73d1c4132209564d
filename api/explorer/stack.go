package explorer

import (
	"bytes"
	"net/http"
	"time"

	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/projections"
)

// A card is the programme on a card, to be shown by itself or in a frame of another
// page.
type card struct {
	frame

	Totals  totals
	Counts  []countedVerdict
	Batch   *batchRow // the latest
	OfDemos bool      // all that is counted is of Karatum's own agents
}

type countedVerdict struct {
	verdictWord

	Count int
	Query string
	Here  bool
}

func countsOf(counts map[finding.Verdict]int, chosen string) (list []countedVerdict) {
	for _, w := range verdicts {
		list = append(list, countedVerdict{w, counts[finding.Verdict(w.Name)], "?verdict=" + w.Name + "#findings", chosen == w.Name})
	}
	return list
}

func (p *Pages) stack(r *http.Request, f frame, s projections.Status) (any, error) {
	f.Title = "Stack"
	f.Description = "The parts of Karatum that this service runs, each on a card."
	v := card{frame: f, Totals: totalsOf(s.Totals)}
	if s.Totals.Consents == nil || sum(s.Totals.Consents)+sum(s.Totals.Revealed)+sum(s.Totals.Findings) == 0 {
		v.Totals, v.OfDemos = totalsOf(s.Demo), sum(s.Demo.Consents) > 0
	}
	counts, err := p.config.Reader.StandingCounts(r.Context())
	if err != nil {
		return nil, err
	}
	v.Counts = countsOf(counts, "")
	batches, err := p.config.Reader.Batches(r.Context(), 0, 1)
	if err != nil {
		return nil, err
	}
	if len(batches) > 0 {
		row := batchRowOf(batches[0])
		v.Batch = &row
	}
	return v, nil
}

// serveCard serves the card alone. It is the one page that others may show in a frame.
func (p *Pages) serveCard(w http.ResponseWriter, r *http.Request) {
	f, status, err := p.open(r, "card")
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v, err := p.stack(r, f, status)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	var b bytes.Buffer
	if err := p.templates["card"].ExecuteTemplate(&b, "alone", v); err != nil {
		p.fail(w, r, err)
		return
	}
	p.head(w, "card")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(visible(b.Bytes())))
}
