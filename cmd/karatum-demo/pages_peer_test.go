//go:build peers

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/karatum/mystery/api/explorer/browsertest"
	"github.com/karatum/mystery/api/explorer/checker"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/verify"
)

// compared is how many slots are checked in all ways.
const compared = 200

// Whoever checks a slot comes to the same verdict: the interface, its page, karatum-verify,
// and what the page loads, which is run by Node for all and by a browser for one of each
// kind. What a page computes itself holds too; and if one digit of a bundle is changed on
// the way, the browser says so.
func TestPeerSameVerdict(t *testing.T) {
	inOrder(t)
	s, consents := openWith(t, flags{seed: "31", listen: "127.0.0.1:0", anchored: true})
	s.days(t, 8)
	for range 2 {
		if err := s.prog.PublishLedger(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	st := stranger{t, filepath.Join(t.TempDir(), "karatum-verify"), t.TempDir()}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", st.program, "../karatum-verify").CombinedOutput(); err != nil {
		t.Fatalf("build karatum-verify: %v\n%s", err, out)
	}

	var revealed, others []string
	kinds := make(map[string]string) // a slot of each
	for _, name := range slices.Sorted(maps.Keys(consents)) {
		var whole verify.BundleReport
		st.run(0, &whole, "bundle", "--json", st.write("bundle.json", s.fetch(t, "/v1/ledger/bundle?consent="+plan.ConsentID(consents[name].Nonce))))
		for _, shop := range whole.Shops {
			kinds[shop.Phase] = shop.Shop
			if shop.Phase == "revealed" {
				revealed = append(revealed, shop.Shop)
			} else {
				others = append(others, shop.Shop)
			}
		}
	}
	slots := append(revealed, others...)
	if len(slots) < compared || len(revealed) < compared/4 || len(kinds) != 3 {
		t.Fatalf("there are %d slots, %d of them revealed, of the kinds %v", len(slots), len(revealed), kinds)
	}
	slots = slots[:compared]

	verdicts := make(map[string]verify.Verdict)
	counts := make(map[verify.Verdict]int)
	inNode := st.node(s.api.base, slots)
	for i, shop := range slots {
		address := "/v1/mystery/shops/" + shop
		var served, again verify.ShopReport
		if err := s.api.get(t.Context(), address+"/verify", nil, &served); err != nil {
			t.Fatal(err)
		}
		st.run(0, &again, "shop", "--json", s.api.base+address)
		st.same(shop, served.Verdict, again.Verdict, inNode[i].Report.Verdict, verdictOnPage(string(s.page(t, "/mystery/shops/"+shop))))
		verdicts[shop] = served.Verdict
		counts[served.Verdict]++
		for _, c := range inNode[i].Own {
			if c.Status == "FAILS" {
				t.Errorf("%s: the script says of %s: %s", shop, c.Name, c.Detail)
			}
		}
	}
	t.Logf("%d slots, %d of them revealed: %v", len(slots), len(revealed), counts)
	s.timePages(t, slots[:len(revealed)])

	ctx := browsertest.Open(t)
	base, tamper := tamperer(t, s.api.base)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		shop := kinds[kind]
		browsertest.Do(ctx, t, shop, chromedp.Navigate(base+"/mystery/shops/"+shop))
		want, known := verdicts[shop]
		if !known {
			want = verdictOnPage(string(s.page(t, "/mystery/shops/"+shop)))
		}
		check := func() string {
			browsertest.Do(ctx, t, shop, chromedp.Click(chromedp.CSS("#in-browser button:not(.copy)")))
			browsertest.WaitFor(ctx, t, `!document.querySelector('#in-browser button').disabled`)
			return browsertest.Eval[string](ctx, t, `document.getElementById('in-browser').dataset.verdict`)
		}
		if got := check(); got != string(want) {
			t.Errorf("%s, %s: the browser says %q, want %q: %s", kind, shop, got, want, browsertest.Eval[string](ctx, t, `document.querySelector('#in-browser [role=status]').textContent`))
		}
		browsertest.UseAxe(ctx, t)
		for _, l := range browsertest.Looks {
			browsertest.Do(ctx, t, l.Name, l.Wear())
			browsertest.Shoot(ctx, t, "checked-"+kind+"-"+l.Name)
			if found, wide := browsertest.Inspect(ctx, t); found != "" || wide {
				t.Errorf("%s, %s: too wide: %t; axe found %s", kind, l.Name, wide, found)
			}
		}
		tamper.Store(true)
		if got := check(); got != "fail" {
			t.Errorf("%s, %s: of a bundle that was changed the browser says %q", kind, shop, got)
		}
		tamper.Store(false)
	}
}

// timePages prints how soon pages of each kind come, which is for people to judge who know
// the machine: first all for the first time, then again.
func (s *stage) timePages(t *testing.T, slots []string) {
	t.Helper()
	consent := "/mystery/cns_" + strings.Split(slots[0], "_")[1]
	paths := []string{
		"/mystery", "/mystery/opt-in", "/mystery/terms", "/mystery/ethics", "/mystery/identities", consent, "/agents", "/agents/steady", "/agents/exam-aware",
		"/stack", "/stack/card", "/ledger", "/ledger/batches", "/ledger/batches/1", "/ledger/records/1", "/bot", "/search",
	}
	for _, id := range slots {
		paths = append(paths, "/mystery/shops/"+id)
	}
	for _, round := range []string{"at first", "again"} {
		took := make(map[string][]time.Duration)
		for _, path := range paths {
			began := time.Now()
			s.page(t, path)
			kind := path
			if strings.HasPrefix(path, "/mystery/shops/") {
				kind = "/mystery/shops/{id}"
			}
			for _, of := range []string{kind, "all"} {
				took[of] = append(took[of], time.Since(began))
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(took)) {
			of := took[kind]
			slices.Sort(of)
			t.Logf("%-24s %-8s p50 %8v  p95 %8v  max %8v", kind, round, of[len(of)/2], of[len(of)*95/100], of[len(of)-1])
		}
	}
}

// page returns a page as it is served.
func (s *stage) page(t *testing.T, path string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.api.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", path, res.Status, err)
	}
	return body
}

// verdictOnPage returns the verdict that a page of a slot says in words.
func verdictOnPage(page string) verify.Verdict {
	for verdict, words := range map[verify.Verdict]string{
		verify.VerdictOK: "All that can be checked holds.", verify.VerdictPending: "What can be checked so far holds;", verify.VerdictFail: "Something does not hold.",
	} {
		if strings.Contains(page, words) {
			return verdict
		}
	}
	return "none"
}

// A check is what came of checking a slot as its page does.
type check struct {
	Own    []struct{ Name, Status, Detail string }
	Report verify.ShopReport
}

// node checks slots with what the page of a slot loads.
func (st stranger) node(base string, slots []string) (checks []check) {
	st.t.Helper()
	peers, program := os.Getenv("PEERS"), checker.Built()
	if peers == "" || program == nil {
		st.t.Fatal("PEERS does not name the folder of the peers, or the program for browsers was not built; run make test-peers")
	}
	z, err := gzip.NewReader(bytes.NewReader(program.WASM))
	if err != nil {
		st.t.Fatal(err)
	}
	wasm, err := io.ReadAll(z)
	if err != nil {
		st.t.Fatal(err)
	}
	script, err := os.ReadFile("../../api/explorer/assets/check.js")
	if err != nil {
		st.t.Fatal(err)
	}
	cmd := exec.CommandContext(st.t.Context(), "node", filepath.Join(peers, "verify.mjs"),
		st.write("check.mjs", script), st.write("wasm_exec.js", program.Runtime), st.write("verify.wasm", wasm), base)
	cmd.Stdin, cmd.Stderr = strings.NewReader(strings.Join(slots, "\n")), st.t.Output()
	out, err := cmd.Output()
	if err != nil {
		st.t.Fatal(err)
	}
	for line := range bytes.Lines(out) {
		var c check
		if err := json.Unmarshal(line, &c); err != nil {
			st.t.Fatal(err)
		}
		checks = append(checks, c)
	}
	if len(checks) != len(slots) {
		st.t.Fatalf("Node checked %d of %d slots", len(checks), len(slots))
	}
	return checks
}

// tamperer serves what is at base, but for one digit in each bundle while it is told to.
func tamperer(t *testing.T, base string) (address string, tamper *atomic.Bool) {
	t.Helper()
	target, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	tamper = new(atomic.Bool)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding") // then the transport decodes
			r.Out.Header.Del("If-None-Match")
		},
		ModifyResponse: func(r *http.Response) error {
			if !tamper.Load() || r.Request.URL.Path != "/v1/ledger/bundle" {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			at := bytes.Index(body, []byte(`"commit":"`)) + len(`"commit":"`)
			body[at] = map[bool]byte{true: 'b', false: 'a'}[body[at] == 'a']
			r.Body = io.NopCloser(bytes.NewReader(body))
			r.ContentLength = int64(len(body))
			r.Header.Set("Content-Length", fmt.Sprint(len(body)))
			r.Header.Del("Etag")
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL, tamper
}
