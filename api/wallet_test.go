package api_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/api/explorer/browsertest"
	"github.com/karatum/mystery/domain/eip191"
)

// announced is a wallet as an extension of the browser brings it (EIP-6963): it announces
// itself and hands what it is asked on to this process.
const announced = `(() => {
	const listeners = new Set();
	const provider = {
		async request({method, params = []}) {
			const answer = await window.askWallet({method, params});
			if (answer.switched) listeners.forEach(f => f([answer.switched]));
			if (answer.code) throw Object.assign(new Error('no'), {code: -32603, data: {originalError: {code: answer.code}}});
			return answer.result;
		},
		on(event, f) { if (event === 'accountsChanged') listeners.add(f); },
		removeListener(event, f) { listeners.delete(f); },
	};
	const info = {uuid: '4f7d0f0e-7d8b-4a3c-9a61-0c51f2f7c001', rdns: 'example.wallet', name: 'A <b>wallet</b>',
		icon: 'data:image/svg+xml,%3Csvg xmlns="http://www.w3.org/2000/svg" onload="document.title=1"/%3E'};
	const hostile = {uuid: '4f7d0f0e-7d8b-4a3c-9a61-0c51f2f7c002', rdns: 'example.hostile', name: '\u202e<img src=x onerror=alert(1)>' + 'x'.repeat(9999),
		icon: 'https://example.com/tracker.png'};
	const announce = () => [info, hostile, info].forEach(
		info => window.dispatchEvent(new CustomEvent('eip6963:announceProvider', {detail: Object.freeze({info, provider})})));
	window.addEventListener('eip6963:requestProvider', announce);
	announce();
})()`

type walletRequest struct {
	Method string   `json:"method"`
	Params []string `json:"params"`
}

type walletAnswer struct {
	Result   any    `json:"result,omitempty"`
	Code     int    `json:"code,omitempty"`
	Switched string `json:"switched,omitempty"` // to this account, before it answers
}

// A handheld is a wallet that answers as people do, in the mood that it is in.
type handheld struct{ mood atomic.Value }

func (w *handheld) answer(_ context.Context, r walletRequest) (walletAnswer, error) {
	stranger := secp256k1.PrivKeyFromBytes([]byte("a stranger's key, for tests only"))
	mood, _ := w.mood.Load().(string)
	switch {
	case r.Method == "eth_requestAccounts" && mood == "other account":
		return walletAnswer{Result: []string{eip191.AddressOf(stranger.PubKey()).String()}}, nil
	case r.Method == "eth_requestAccounts":
		return walletAnswer{Result: []string{strings.ToLower(owner.String())}}, nil
	case r.Method != "personal_sign" || len(r.Params) != 2 || !strings.EqualFold(r.Params[1], owner.String()):
		return walletAnswer{Code: -32602}, fmt.Errorf("the wallet is asked for %s of %q", r.Method, r.Params)
	case mood == "declines":
		return walletAnswer{Code: 4001}, nil
	case mood == "cannot sign":
		return walletAnswer{Code: 4200}, nil
	case mood == "is busy":
		return walletAnswer{Code: -32002}, nil
	case mood == "is disconnected":
		return walletAnswer{Code: 4900}, nil
	case mood == "does not know why":
		return walletAnswer{Code: -32603}, nil
	case mood == "gives no signature":
		return walletAnswer{Result: "yes"}, nil
	}
	message, err := hex.DecodeString(strings.TrimPrefix(r.Params[0], "0x"))
	if err != nil {
		return walletAnswer{}, err
	}
	a := walletAnswer{Result: eip191.Sign(string(message), key).String()}
	switch mood {
	case "other key":
		a.Result = eip191.Sign(string(message), stranger).String()
	case "other account while signing":
		a.Switched = eip191.AddressOf(stranger.PubKey()).String()
	}
	return a, nil
}

// An owner gives and revokes a consent with a wallet in the browser. What goes wrong on
// the way is said on the page, and nothing comes of it.
func TestWalletInBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	ctx, fake := browsertest.Open(t), new(handheld)
	do := func(what string, actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		browsertest.Do(ctx, t, what, actions...)
	}
	eval := func(expression string) string {
		t.Helper()
		return browsertest.Eval[string](ctx, t, expression)
	}
	button := chromedp.CSS("#wallets button")
	sign := func(mood string) {
		t.Helper()
		fake.mood.Store(mood)
		do(mood, chromedp.WaitVisible(button), chromedp.Click(button))
	}
	do("the wallet", chromedp.ExposeFunc("askWallet", fake.answer))
	browsertest.Before(ctx, t, announced)

	before := w.records()
	do("the form", chromedp.Navigate(server.URL+"/mystery/opt-in"))
	eval(`(() => { const f = document.querySelector('form.sheet'); f.elements.agent.value = '42'; f.elements.url0.value = 'https://agent.example/a2a';
		f.requestSubmit(); return ''; })()`)
	do("the message", chromedp.WaitVisible(button))
	if got := eval(`document.querySelector('#wallets button').textContent.trim() + '|' + document.title`); got != "Sign with A <b>wallet</b>|Sign the consent · Karatum" {
		t.Errorf("the button and the page are named %q", got)
	}
	if got := eval(`[...document.querySelectorAll('#wallets button')].map(b => b.querySelectorAll('img').length + ' ' + b.querySelector('bdi').textContent.length).join()`); got != "1 15,0 40" {
		t.Errorf("the buttons have, as icons and letters of a name, %q", got)
	}
	for _, tt := range []struct{ mood, want string }{
		{"declines", "You declined in the wallet."},
		{"cannot sign", "This wallet cannot sign messages."},
		{"is busy", "A request is open in the wallet already."},
		{"is disconnected", "The wallet is disconnected."},
		{"does not know why", "The wallet gave no signature."},
		{"gives no signature", "This wallet cannot sign messages."},
		{"other account", "The wallet offers another account: "},
		{"other account while signing", "The account was changed while you signed."},
	} {
		eval(`document.getElementById('wallet-status').textContent = ''`)
		sign(tt.mood)
		said, err := chromedp.Run(ctx, chromedp.Poll[string](`document.querySelector('#wallets button').disabled ? '' : document.getElementById('wallet-status').textContent`))
		if err != nil || !strings.Contains(said, tt.want) {
			t.Errorf("the wallet %s: the page says %q, %v; want %q", tt.mood, said, err, tt.want)
		}
	}
	if refused := browsertest.Refused(ctx, t); len(refused) > 0 {
		t.Errorf("the policy keeps the page from %q", refused)
	}
	browsertest.UseAxe(ctx, t)
	for _, l := range browsertest.Looks {
		do(l.Name, l.Wear())
		browsertest.Shoot(ctx, t, "sign-"+l.Name)
		if found, wide := browsertest.Inspect(ctx, t); found != "" || wide {
			t.Errorf("%s: too wide: %t; axe found %s", l.Name, wide, found)
		}
	}
	sign("other key")
	do("the refusal", chromedp.WaitVisible(chromedp.CSS("[role=alert]")))
	if n := w.records(); n != before {
		t.Errorf("%d records came of what was not signed", n-before)
	}
	sign("signs")
	do("the consent", chromedp.WaitVisible(chromedp.CSS("#revoke")))

	do("the revocation", chromedp.Click(chromedp.CSS(`form[action$="/revoke"] button`)))
	sign("signs")
	do("the end", chromedp.WaitVisible(chromedp.CSS(".state.revoked")))
}
