//go:build peers

package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/karatum/mystery/domain/incident"
)

// browser starts Chromium, of which every call makes another tab.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("Chromium is missing; run make test-peers, which installs it")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true))
	if os.Getuid() == 0 { // what it refuses, and what it shows comes from this process alone
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // far beyond what a slow machine takes
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

// axe is the source of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	peers := os.Getenv("PEERS")
	if peers == "" {
		t.Fatal("PEERS does not name the folder of the peers; run make test-peers")
	}
	source, err := os.ReadFile(filepath.Join(peers, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// violations has axe look at the page that is open, and says what it finds, a line each.
const violations = `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(
	r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html + ' ' + n.failureSummary).join('; ')).join('\n'))`

// A look is a way in which people see a page.
type look struct {
	name   string
	scheme string
	width  int64
}

var looks = []look{{"light", "light", 1100}, {"dark", "dark", 1100}, {"phone", "light", 390}}

// wear has pages shown as in a look.
func (l look) wear() chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.EmulateViewport(l.width, 900), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}},
		})
		return err
	}))
}

// Pages can be read by all: axe finds nothing on any of them, in any look, and nothing is
// wider than the window. A page with faults is among them, or the test might be blind.
func TestPeerPagesInBrowser(t *testing.T) {
	w, d := eventful(t)
	handler := http.NewServeMux()
	handler.Handle("/", w.handler)
	handler.HandleFunc("/faulty", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>x</title><main><h1>x</h1><p style="color:#bbb;background:#fff">grey</p>
			<p style="width:3000px">wide</p><img src="x.png"></main></html>`))
	})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	ctx, source := browser(t), axe(t)
	paths := []string{
		"/faulty", "/mystery", "/mystery/opt-in", "/mystery/terms", "/mystery/ethics", "/mystery/identities", "/mystery/" + d.consent,
		"/mystery/shops/" + d.shop(d.tasks[0]), "/mystery/shops/" + d.shop(d.tasks[1]), "/mystery/shops/" + d.shop(d.pads[0]), "/agents", "/agents/42", "/agents/demo",
		"/ledger", "/ledger/batches", "/ledger/batches/1", "/ledger/records/3", "/stack", "/stack/card", "/search", "/search?q=1", "/bot", "/nowhere",
		"/incidents/" + incident.ID(d.consent), "/mystery/" + d.consent + "?look=1",
	}
	for _, path := range paths {
		// The details of a page belong to it.
		const open = `document.querySelectorAll('details').forEach(d => d.open = true);`
		if err := chromedp.Do(ctx, chromedp.Navigate(server.URL+path)); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := chromedp.Run(ctx, chromedp.Evaluate[any](open+source+";0")); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, l := range looks {
			if err := chromedp.Do(ctx, l.wear()); err != nil {
				t.Fatal(err)
			}
			found, wide := inspect(ctx, t)
			if faulty := path == "/faulty"; faulty && (!strings.Contains(found, "color-contrast") || !strings.Contains(found, "image-alt") || !wide) {
				t.Errorf("%s, %s: axe found %q, too wide: %t; want the faults that are there", path, l.name, found, wide)
			} else if !faulty && (found != "" || wide) {
				t.Errorf("%s, %s: too wide: %t; axe found %s", path, l.name, wide, found)
			}
		}
	}
}

// inspect returns what is wrong with the page that is open.
func inspect(ctx context.Context, t *testing.T) (found string, wide bool) {
	t.Helper()
	wide, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`))
	if err != nil {
		t.Fatal(err)
	}
	found, err = chromedp.Run(ctx, chromedp.Evaluate[string](violations, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return found, wide
}
