package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		case strings.HasPrefix(r.URL.Path, "/v1/mystery/consents/cns_"):
			answer = read("consent")
		case r.URL.Path == "/v1/mystery/shops/"+shown.ID:
			answer = read("shop")
		case r.URL.Path == "/v1/ledger/streams/shop/"+shown.ID:
			answer = read("stream")
		case strings.HasPrefix(r.URL.Path, "/v1/ledger/streams/seal/cns_"):
			answer = `{"items":[` + read("seal") + `]}`
		}
		if answer = change(r.URL.Path, answer); answer == "" {
			http.NotFound(w, r)
			return
		}
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
			if strings.Contains(path, "/streams/") {
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
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil || code != exitOK || report.Verdict != "ok" || len(report.Checks) != 12 {
		t.Errorf("run = %d (%v); it said %s%s", code, err, &stdout, &stderr)
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
