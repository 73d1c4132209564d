package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/karatum/mystery/api/client"
)

const shopID = "shp_yhhvaqbduib7i7scjuy2_20261018_"

// servedSlot serves a slot as the service does. change may tamper with what is said.
func servedSlot(t *testing.T, change func(path, answer string) string) (url string) {
	t.Helper()
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "..", "domain", "verify", "testdata", "shop", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var shown struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(read("shop")), &shown); err != nil {
		t.Fatal(err)
	}
	var sealed struct {
		Record struct {
			Data struct {
				Hour uint64 `json:"hour"`
			} `json:"data"`
		} `json:"record"`
	}
	if err := json.Unmarshal([]byte(read("seal")), &sealed); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := ""
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/mystery/consents/cns_") && strings.Contains(r.URL.Path, "/days/"):
			answer = read("day")
		case strings.HasPrefix(r.URL.Path, "/v1/mystery/consents/cns_"):
			answer = read("consent")
		case r.URL.Path == "/v1/mystery/shops/"+shown.ID:
			answer = read("shop")
		case r.URL.Path == "/v1/ledger/streams/shop/"+shown.ID:
			answer = read("stream")
		case strings.HasPrefix(r.URL.Path, "/v1/ledger/streams/seal/cns_"):
			answer = `{"items":[` + read("seal") + `]}`
		case r.URL.Path == "/v1/ledger/bundle":
			answer = strings.TrimSuffix(read("bundle"), "\n") // the line feed of the file
		}
		if answer = change(r.URL.Path, answer); answer == "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1/mystery/shops/" + shown.ID
}

func TestShop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(path, answer string) string
		code   int
		says   string
	}{
		{"as it was", func(_, answer string) string { return answer }, exitOK, ": ok\n"},
		{"the log does not cover it yet", func(path, answer string) string {
			if strings.Contains(path, "/ledger/") {
				return ""
			}
			return answer
		}, exitOK, ": pending\n"},
		{"another reply", func(_, answer string) string { return strings.Replace(answer, "The answer", "My answer", 1) }, exitFailed, "the reply that is shown is not"},
		{"no consent", func(path, answer string) string {
			if strings.Contains(path, "/consents/") {
				return ""
			}
			return answer
		}, exitError, "404"},
		{"no JSON", func(string, string) string { return "<html>" }, exitError, "JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{"shop", servedSlot(t, tt.change)}, nil, &stdout, &stderr)
			if code != tt.code || !strings.Contains(stdout.String()+stderr.String(), tt.says) {
				t.Errorf("run = %d, want %d; it said %s%s, want %q in it", code, tt.code, &stdout, &stderr, tt.says)
			}
		})
	}
}

// A day that is opened while its slot is asked for contradicts nothing.
func TestShopOfADayThatIsOpenedMeanwhile(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	url := servedSlot(t, func(path, answer string) string {
		if !strings.Contains(path, "/days/") || asked.Add(1) > 1 {
			return answer
		}
		var day map[string]json.RawMessage
		if err := json.Unmarshal([]byte(answer), &day); err != nil || day["opened"] == nil {
			t.Errorf("the day is not opened: %.300s", answer)
		}
		delete(day, "opened")
		closed, err := json.Marshal(day)
		if err != nil {
			t.Error(err)
		}
		return string(closed)
	})
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"shop", url}, nil, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), ": ok\n") {
		t.Errorf("run = %d after the day was asked for %d times; it said %s%s", code, asked.Load(), &stdout, &stderr)
	}
}

func TestShopAsJSON(t *testing.T) {
	t.Parallel()
	url := servedSlot(t, func(_, answer string) string { return answer })
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"shop", "--json", url}, nil, &stdout, &stderr)
	var report struct {
		Verdict string `json:"verdict"`
		Checks  []struct {
			ID string `json:"id"`
		} `json:"checks"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil || code != exitOK || report.Verdict != "ok" || len(report.Checks) != 19 {
		t.Errorf("run = %d (%v); it said %s%s", code, err, &stdout, &stderr)
	}
}

// Who reads the slot with the client that is made from the API's document reads what is
// verified, and the bundle that the client keeps is good without the service.
func TestClientReadsWhatIsVerified(t *testing.T) {
	t.Parallel()
	base, id, _ := strings.Cut(servedSlot(t, func(_, answer string) string { return answer }), "/v1/mystery/shops/")
	c, err := client.NewClientWithResponses(base)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := c.GetShopWithResponse(t.Context(), id, nil)
	if err != nil || slot.JSON200 == nil || slot.JSON200.Id != id {
		t.Fatalf("GetShop(%s) = %+v, %v", id, slot, err)
	}
	consent, err := c.GetConsentWithResponse(t.Context(), slot.JSON200.Consent, nil)
	if err != nil || consent.JSON200 == nil || consent.JSON200.Payload.Agent == "" {
		t.Fatalf("GetConsent(%s) = %+v, %v", slot.JSON200.Consent, consent, err)
	}
	records, err := c.ListLedgerStreamWithResponse(t.Context(), "shop", id, nil)
	if err != nil || records.JSON200 == nil || len(records.JSON200.Items) == 0 {
		t.Fatalf("ListLedgerStream(shop, %s) = %+v, %v", id, records, err)
	}
	bundle, err := c.GetLedgerBundleWithResponse(t.Context(), &client.GetLedgerBundleParams{Shop: &id})
	if err != nil || bundle.JSON200 == nil {
		t.Fatalf("GetLedgerBundle(%s) = %+v, %v", id, bundle, err)
	}
	file := filepath.Join(t.TempDir(), "bundle.json")
	if err := os.WriteFile(file, bundle.Body, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"shop", base + "/v1/mystery/shops/" + id}, {"bundle", file}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, nil, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), id) {
			t.Errorf("%s = %d; it said %s%s", args[0], code, &stdout, &stderr)
		}
	}
	absent, err := c.GetShopWithResponse(t.Context(), "shp_aaaaaaaaaaaaaaaaaaaa_20260301_07", nil)
	if err != nil || absent.JSON200 != nil || absent.StatusCode() != http.StatusNotFound {
		t.Errorf("GetShop of no slot = %+v, %v", absent, err)
	}
}

// The bundle of the same slot comes to the same, from a file or over the network, and a
// day that it has a part of is pending.
func TestBundle(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", "domain", "verify", "testdata", "shop", "bundle.json"))
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.TrimSuffix(data, []byte("\n"))
	var head struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		t.Fatal(err)
	}
	url := servedSlot(t, func(_, answer string) string { return answer })
	base, shop, _ := strings.Cut(url, "/v1/mystery/shops/")
	parts := strings.Split(shop, "_")
	day := "/v1/mystery/consents/cns_" + parts[1] + "/days/" + parts[2][:4] + "-" + parts[2][4:6] + "-" + parts[2][6:]
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	changed := bytes.Replace(data, []byte("build:42"), []byte("build:43"), 1)
	good := write("good.json", data)
	_, node := attestedBatches(t, 1, false)
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"bundle", good}, exitOK, "shop " + shop + " (revealed): ok\n"},
		{[]string{"bundle", base + "/v1/ledger/bundle?shop=" + shop}, exitOK, "1 replies: ok\n"},
		{[]string{"bundle", "--key", head.Key, "--json", good}, exitOK, `"verdict": "ok"`},
		{[]string{"bundle", "--key", strings.Replace(head.Key, "karatum", "keratum", 1), good}, exitFailed, "one of the log with the key"},
		{[]string{"bundle", write("changed.json", changed)}, exitFailed, "is not in the log"},
		{[]string{"bundle", write("longer.json", append(bytes.Clone(data), '\n'))}, exitFailed, "one form"},
		{[]string{"bundle", write("half.json", data[:len(data)/2])}, exitFailed, "cannot be read"},
		{[]string{"bundle", filepath.Join(dir, "none.json")}, exitError, "no such file"},
		{[]string{"bundle", "--rpc", node, good}, exitOK, "pending attestation: pending until the chain can be asked: the node serves chain 1337"},
		{[]string{"shop", "--rpc", node, url}, exitOK, "until the chain can be asked"},
		{[]string{"day", "--rpc", node, base + day}, exitOK, ": pending\n"},
		{[]string{"day", base + day}, exitOK, ": pending\n"},
		{[]string{"day", "--json", base + day + "/verify"}, exitOK, `"phase": "opened"`},
		{[]string{"day", "--key", "other", base + day}, exitFailed, "one of the log with the key"},
		{[]string{"day", base + strings.TrimSuffix(day, parts[2][6:])}, exitError, "is not the URL of a day"},
		{[]string{"day", "--json", url}, exitError, "is not the URL of a day"},
		{[]string{"day"}, exitUsage, "arg"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), tt.args, nil, &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String()+stderr.String(), tt.says) {
			t.Errorf("%v = %d, want %d; it said %.3000s%s, want %q in it", tt.args, code, tt.code, &stdout, &stderr, tt.says)
		}
	}
}

func TestShopNeedsAURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"shop.json", "https://karatum.com/v1/mystery/consents/cns_a", "https://karatum.com/v1/mystery/shops/" + shopID + "07/verify"} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"shop", url}, nil, &stdout, &stderr); code != exitError || !strings.Contains(stderr.String(), "URL of a slot") {
			t.Errorf("shop %s = %d; it said %s", url, code, &stderr)
		}
	}
}
