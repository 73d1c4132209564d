package api_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/karatum/mystery/api/explorer/browsertest"
	"github.com/karatum/mystery/api/explorer/checker"
	"github.com/karatum/mystery/domain/incident"
)

// Pages can be read by all: axe finds nothing on any of them, in any look, and nothing is
// wider than the window. A page with faults is among them, or the test might be blind.
func TestPagesInBrowser(t *testing.T) {
	t.Parallel()
	w, d := eventful(t)
	handler := http.NewServeMux()
	handler.Handle("/", w.handler)
	handler.HandleFunc("/faulty", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>x</title><main><h1>x</h1><p style="color:#bbb;background:#fff">grey</p>
			<p style="width:3000px">wide</p><img src="x.png"></main></html>`))
	})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	ctx := browsertest.Open(t)
	paths := []string{
		"/faulty", "/mystery", "/mystery/opt-in", "/mystery/terms", "/mystery/ethics", "/mystery/identities", "/mystery/" + d.consent,
		"/mystery/shops/" + d.shop(d.tasks[0]), "/mystery/shops/" + d.shop(d.tasks[1]), "/mystery/shops/" + d.shop(d.pads[0]), "/agents", "/agents/42", "/agents/demo",
		"/ledger", "/ledger/batches", "/ledger/batches/1", "/ledger/records/3", "/stack", "/stack/card", "/search", "/search?q=1", "/bot", "/docs/api", "/docs/api/get-consent", "/docs/api/submit-ledger-events", "/nowhere",
		"/incidents/" + incident.ID(d.consent), "/mystery/" + d.consent + "?look=1",
	}
	for _, path := range paths {
		browsertest.Do(ctx, t, path, chromedp.Navigate(server.URL+path))
		if refused := browsertest.Refused(ctx, t); len(refused) > 0 {
			t.Errorf("%s: its policy keeps it from %q", path, refused)
		}
		// The details of a page belong to it.
		browsertest.Eval[any](ctx, t, `document.querySelectorAll('details').forEach(d => d.open = true)`)
		browsertest.UseAxe(ctx, t)
		name := strings.Trim(strings.NewReplacer("/", "-", "?", "-", "=", "-", d.consent, "consent", strings.TrimPrefix(d.consent, "cns_"), "").Replace(path), "-")
		for _, l := range browsertest.Looks {
			browsertest.Do(ctx, t, l.Name, l.Wear())
			if l.Name != "light" {
				browsertest.Shoot(ctx, t, name+"-"+l.Name)
			}
			found, wide := browsertest.Inspect(ctx, t)
			if faulty := path == "/faulty"; faulty && (!strings.Contains(found, "color-contrast") || !strings.Contains(found, "image-alt") || !wide) {
				t.Errorf("%s, %s: axe found %q, too wide: %t; want the faults that are there", path, l.Name, found, wide)
			} else if !faulty && (found != "" || wide) {
				t.Errorf("%s, %s: too wide: %t; axe found %s", path, l.Name, wide, found)
			}
		}
		if strings.Contains(path, d.consent) { // that people may want on paper
			browsertest.Do(ctx, t, "print", browsertest.Print.Wear())
			browsertest.Shoot(ctx, t, name+"-print")
		}
	}
}

// What scripts add works as people use it: with a mouse and with keys, and said to who
// hears the page.
func TestScriptsInBrowser(t *testing.T) {
	t.Parallel()
	w, d := eventful(t)
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	ctx := browsertest.Open(t)

	browsertest.Do(ctx, t, "the consent", chromedp.Navigate(server.URL+"/mystery/"+d.consent))
	// What is said is taken back after a while, so it is taken down.
	browsertest.Eval[any](ctx, t, `(() => {
		const write = navigator.clipboard.writeText.bind(navigator.clipboard);
		navigator.clipboard.writeText = text => { window.copied = text; return write(text); };
		const spoken = document.querySelector('body > [role=status]'), button = document.querySelector('main button.copy');
		new MutationObserver(() => window.said ??= [window.copied, button.firstChild.textContent, spoken.textContent].join()).observe(spoken, {childList: true});
	})()`)
	browsertest.Do(ctx, t, "copy", chromedp.Click(chromedp.CSS("main button.copy")))
	browsertest.WaitFor(ctx, t, `window.said !== undefined`)
	if got, want := browsertest.Eval[string](ctx, t, `window.said`), d.consent+",Copied,"+d.consent+" is copied."; got != want {
		t.Errorf("what was copied, the button, and what is said: %s, want %s", got, want)
	}
	browsertest.Eval[any](ctx, t, `(() => { window.copied = ''; document.querySelector('main button.copy').focus(); })()`)
	browsertest.Do(ctx, t, "copy by the keyboard", chromedp.KeyEvent(kb.Enter))
	browsertest.WaitFor(ctx, t, `window.copied !== ''`)

	browsertest.Do(ctx, t, "the form", chromedp.Navigate(server.URL+"/mystery/opt-in"))
	typed := func(field, value string) {
		t.Helper()
		browsertest.Eval[any](ctx, t, `(() => { const field = document.querySelector('form.sheet [name="`+field+`"]'); field.focus(); field.select(); })()`)
		browsertest.Do(ctx, t, field, chromedp.KeyEvent(value))
	}
	said := func(want string) {
		t.Helper()
		browsertest.WaitFor(ctx, t, `document.querySelector('form.sheet [role=status]').textContent.includes(`+strconv.Quote(want)+`)`)
	}
	typed("perDay", "99")
	said("Most tasks a day: ")
	typed("perDay", "4")
	typed("agent", "999")
	typed("url0", "https://agent.example/a2a")
	said("Agent build:999 is not registered.")
	typed("agent", "42")
	said("This keeps all rules.")
	typed("url1", "https://agent.example/a2a")
	said("Endpoint https://agent.example/a2a is listed twice.")
	if refused := browsertest.Refused(ctx, t); len(refused) > 0 {
		t.Errorf("the policy keeps the form from %q", refused)
	}
}

// Who has the id of a consent finds it, reads what is said of its agent, and has the browser
// check one of its slots, which comes to what the service says.
func TestReaderInBrowser(t *testing.T) {
	t.Parallel()
	w, d := eventful(t)
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	ctx := browsertest.Open(t)

	browsertest.Do(ctx, t, "the programme", chromedp.Navigate(server.URL+"/mystery"))
	browsertest.Eval[any](ctx, t, `document.querySelector('[name="q"]').focus()`)
	browsertest.Do(ctx, t, "search", chromedp.KeyEvent(d.consent+kb.Enter))
	browsertest.Do(ctx, t, "the consent", chromedp.WaitVisible(chromedp.CSS("#revoke")))
	if text := browsertest.Eval[string](ctx, t, `document.querySelector('main').innerText`); !strings.Contains(text, "demo") || !strings.Contains(text, "Two of the tasks were ours.") {
		t.Errorf("the page of the consent does not say what was found and corrected: %.2000s", text)
	}
	slot := "/mystery/shops/" + d.shop(d.tasks[0])
	browsertest.Do(ctx, t, "a task", chromedp.Click(chromedp.CSS(`main a[href="`+slot+`"]`)))
	browsertest.Do(ctx, t, "check", chromedp.WaitVisible(chromedp.CSS("#in-browser button:not(.copy)")), chromedp.Click(chromedp.CSS("#in-browser button:not(.copy)")))
	browsertest.WaitFor(ctx, t, `!document.querySelector('#in-browser button:not(.copy)').disabled`)
	if checker.Built() == nil {
		t.Error("the program that browsers check with was not built; run make wasm")
	}
	want := w.get(root + "/shops/" + d.shop(d.tasks[0]) + "/verify")["verdict"]
	if got := browsertest.Eval[string](ctx, t, `document.getElementById('in-browser').dataset.verdict`); got != want {
		t.Errorf("the browser says %q, want %q: %s", got, want, browsertest.Eval[string](ctx, t, `document.querySelector('#in-browser [role=status]').textContent`))
	}
	if refused := browsertest.Refused(ctx, t); len(refused) > 0 {
		t.Errorf("the policy keeps the page from %q", refused)
	}
}
