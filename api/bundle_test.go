package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/verify"
)

// A bundle holds just what it is asked for, and proves itself.
func TestLedgerBundle(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	l := w.publicLog()
	d := w.seal(w.grant(house), house)
	w.grant(honest)
	slot := d.tasks[0]
	d.send(slot, "six feet & <two> inches")
	d.reveal(slot, passed("six feet & <two> inches"))
	l.ok(w.runner.CatchUp(t.Context()))
	path := map[string]string{
		"slot":    "/v1/ledger/bundle?shop=" + d.shop(slot),
		"pad":     "/v1/ledger/bundle?shop=" + d.shop(d.pads[0]),
		"day":     fmt.Sprintf("/v1/ledger/bundle?consent=%s&day=%d", d.consent, d.day),
		"no day":  fmt.Sprintf("/v1/ledger/bundle?consent=%s&day=%d", d.consent, d.day+1),
		"consent": "/v1/ledger/bundle?consent=" + d.consent,
	}
	verifyDay := fmt.Sprintf("%s/consents/%s/days/%d/verify", root, d.consent, d.day)
	for name, path := range path {
		if a := w.do(http.MethodGet, path, ""); a.status != http.StatusNotFound || a.header.Get("Content-Type") != problem {
			t.Errorf("%s before the first checkpoint: %d %s", name, a.status, a.body)
		}
	}
	if a := w.do(http.MethodGet, verifyDay, ""); a.status != http.StatusNotFound {
		t.Errorf("the checks of a day before the first checkpoint: %d %s", a.status, a.body)
	}

	l.publish()
	check := func(when string, want map[string][2]int) {
		t.Helper()
		for name, n := range want {
			a := w.do(http.MethodGet, path[name], "")
			if a.status != http.StatusOK || a.header.Get("Ledger-Size") == "" {
				t.Fatalf("%s %s: %d %s", name, when, a.status, a.body)
			}
			x, err := verify.OpenBundle([]byte(a.body))
			if err != nil {
				t.Errorf("%s %s: %v", name, when, err)
				continue
			}
			r, err := x.Report()
			if err != nil || r.Records != n[0] || r.Replies != n[1] || r.Key != l.vkey {
				t.Errorf("%s %s: %d records and %d replies of %s (%v), want %v", name, when, r.Records, r.Replies, r.Key, err, n)
			}
		}
	}
	// A consent has two records, its plan one, and each slot one, revealed two.
	check("when a slot was revealed", map[string][2]int{"slot": {5, 1}, "pad": {4, 0}, "day": {28, 1}, "no day": {3, 0}, "consent": {28, 1}})
	d.open()
	d.step(slot, shop.Erase{Reason: "asked for"})
	l.ok(w.runner.CatchUp(t.Context()))
	l.publish()
	check("when it was erased", map[string][2]int{"slot": {7, 0}, "pad": {5, 0}, "day": {30, 0}, "no day": {4, 0}, "consent": {30, 0}})

	b := w.get(verifyDay)
	checks, _ := b["checks"].([]any)
	if b["consent"] != d.consent || b["phase"] != "opened" || b["verdict"] != "fail" || len(checks) != 15 { // nothing follows from a key here
		t.Errorf("the checks of the day are %v", b)
	}
	for path, status := range map[string]int{
		"/v1/ledger/bundle": 400,
		"/v1/ledger/bundle?shop=" + d.shop(slot) + "&consent=" + d.consent:   400,
		"/v1/ledger/bundle?day=20000":                                        400,
		"/v1/ledger/bundle?consent=" + d.consent + "&day=0":                  422,
		"/v1/ledger/bundle?consent=cns_a":                                    422,
		"/v1/ledger/bundle?consent=cns_aaaaaaaaaaaaaaaaaaaa":                 404,
		"/v1/ledger/bundle?shop=shp_aaaaaaaaaaaaaaaaaaaa_20260301_07":        404,
		fmt.Sprintf("%s/consents/%s/days/%d/verify", root, d.consent, 1):     404,
		root + "/consents/" + d.consent + "/days/x/verify":                   422,
		root + "/consents/cns_aaaaaaaaaaaaaaaaaaaa/days/20000/verify":        404,
		fmt.Sprintf("%s/consents/%s/days/%d/verify", root, d.consent, d.day): 200,
	} {
		if a := w.do(http.MethodGet, path, ""); a.status != status {
			t.Errorf("GET %s: %d %s, want %d", path, a.status, a.body, status)
		}
	}
}
