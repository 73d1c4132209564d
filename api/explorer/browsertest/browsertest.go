// Package browsertest looks at pages in Chromium, for tests.
package browsertest

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// names are those under which systems have Chromium.
var names = []string{"chromium", "chromium-browser", "google-chrome"}

// Open starts Chromium, which ends with the test. Short tests do without.
func Open(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("looking at pages takes longer than a short test")
	}
	path := ""
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("Chromium, in which pages are looked at, is missing: run make browser, or install the package chromium; go test -short does without")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true))
	if os.Getuid() == 0 { // what it refuses, and what it shows comes from this process alone
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // far beyond what a slow machine takes
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	// A tab that nobody looks at may not copy.
	Do(ctx, t, "focus", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	}))
	Before(ctx, t, `(() => {
		window.refused = [];
		document.addEventListener('securitypolicyviolation', e => window.refused.push(e.violatedDirective + ' ' + e.blockedURI));
	})()`)
	return ctx
}

// Before has every page run a script before its own.
func Before(ctx context.Context, t *testing.T, script string) {
	t.Helper()
	Do(ctx, t, "the script before all", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// Refused returns what its policy kept the page that is open from.
func Refused(ctx context.Context, t *testing.T) []string {
	t.Helper()
	return Eval[[]string](ctx, t, `window.refused`)
}

// A Look is a way in which people see a page.
type Look struct {
	Name   string
	Scheme string // of colours
	Width  int64
	Media  string // screen or print
}

// Looks are those that every page is looked at in.
var Looks = []Look{{"light", "light", 1100, "screen"}, {"dark", "dark", 1100, "screen"}, {"phone", "light", 390, "screen"}}

// Print is how a page looks on paper.
var Print = Look{"print", "light", 800, "print"}

// Wear has pages shown as in a look.
func (l Look) Wear() chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.EmulateViewport(l.Width, 900), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Media: l.Media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.Scheme}},
		})
		return err
	}))
}

// Do carries out actions.
func Do(ctx context.Context, t *testing.T, what string, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Eval evaluates an expression in the page that is open.
func Eval[T any](ctx context.Context, t *testing.T, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// WaitFor waits until an expression is true in the page that is open.
func WaitFor(ctx context.Context, t *testing.T, expression string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(10*time.Minute))); err != nil {
		t.Fatalf("waiting for %s: %v", expression, err)
	}
}

// axe is axe-core as Deque Systems publish it, under the licence that lies beside it.
//
//go:embed testdata/axe-core/axe.min.js
var axe string

// UseAxe loads axe-core into the page that is open.
func UseAxe(ctx context.Context, t *testing.T) {
	t.Helper()
	Eval[any](ctx, t, axe+";0")
}

// violations has axe look at the page that is open, and says what it finds, a line each.
// What is fine it need not describe, which takes most of its time.
const violations = `axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(
	r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html + ' ' + n.failureSummary).join('; ')).join('\n'))`

// Inspect returns what axe finds on the page that is open, and whether it is wider than
// the window.
func Inspect(ctx context.Context, t *testing.T) (found string, wide bool) {
	t.Helper()
	return Eval[string](ctx, t, violations), Eval[bool](ctx, t, `document.documentElement.scrollWidth > innerWidth`)
}

// Shoot keeps a picture of the whole page that is open in the folder that SCREENSHOTS
// names, if it names one.
func Shoot(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	// What was emulated before may not be drawn yet.
	Eval[any](ctx, t, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))`)
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.MkdirAll(folder, 0o755) //nolint:gosec // who runs the tests says where pictures go, and looks at them
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644) //nolint:gosec // likewise
	}
	if err != nil {
		t.Fatal(err)
	}
}
