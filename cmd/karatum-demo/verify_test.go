package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/karatum/mystery/cmd/internal/doctest"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/verify"
)

// follow does what the tutorial says.
func follow(t *testing.T, program, url, ref string) {
	t.Helper()
	for _, needed := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Logf("the tutorial is not followed: %v", err)
			return
		}
	}
	out := doctest.Run(t, "CHECK.md", "check", []string{"URL=" + url, "AGENT=" + ref}, map[string]string{"karatum-verify": "exec '" + program + "'"})
	// Nobody was examined in these few days.
	if !strings.Contains(out, "verdict             insufficient") {
		t.Errorf("the tutorial does not come to the verdict:\n%s", out)
	}
}

// A stranger checks some days with karatum-verify: over the network and offline from
// bundles, slot by slot, day by day and the log as a whole, with and without asking the
// chain, he and the service come to the same verdicts. Whatever he finds that was changed is a failed check.
func TestStranger(t *testing.T) {
	inOrder(t)
	t.Parallel()
	s, consents := openWith(t, flags{seed: "14", listen: "127.0.0.1:0", rpc: "127.0.0.1:0", anchored: true})
	s.days(t, 5)
	for range 2 {
		if err := s.prog.PublishLedger(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(t.TempDir(), "karatum-verify")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../karatum-verify").CombinedOutput(); err != nil {
		t.Fatalf("build karatum-verify: %v\n%s", err, out)
	}
	st := stranger{t, program, t.TempDir()}
	base := s.api.base
	follow(t, program, base, string(consents["exam-aware"].Agent))

	var log struct{ Size, Seen uint64 }
	state := filepath.Join(st.dir, "log.json")
	st.run(0, &log, "log", "--json", "--state", state, base)
	if log.Size == 0 || log.Seen != 0 {
		t.Errorf("log says %+v", log)
	}
	for _, name := range slices.Sorted(maps.Keys(consents)) {
		p := consents[name]
		id := plan.ConsentID(p.Nonce)
		data := s.fetch(t, "/v1/ledger/bundle?consent="+id)
		var whole verify.BundleReport
		st.run(0, nil, "bundle", st.write("bundle.json", data))
		st.run(0, &whole, "bundle", "--json", filepath.Join(st.dir, "bundle.json"))
		if whole.Verdict == verify.VerdictFail || len(whole.Days) < 3 || len(whole.Consents) == 0 || whole.Replies == 0 {
			t.Errorf("%s: the bundle comes to %s with %d days", name, whole.Verdict, len(whole.Days))
		}
		t.Logf("%s: %d records, %d replies, %d days, %d slots", name, whole.Records, whole.Replies, len(whole.Days), len(whole.Shops))
		opened := 0
		for _, d := range whole.Days {
			url := fmt.Sprintf("/v1/mystery/consents/%s/days/%d", id, d.Day)
			var served, again verify.DayReport
			if err := s.api.get(t.Context(), url+"/verify", nil, &served); err != nil {
				t.Fatal(err)
			}
			st.run(0, &again, "day", "--json", base+url)
			var asked verify.DayReport
			st.run(0, &asked, "day", "--json", "--rpc", s.anchor.url, base+url)
			st.same(name, again.Verdict, asked.Verdict)
			if d.Phase == "opened" {
				opened++
				st.same(name, "ok", served.Verdict, again.Verdict, d.Verdict)
			} else {
				st.same(name, "pending", served.Verdict, again.Verdict, d.Verdict)
			}
		}
		if opened == 0 {
			t.Errorf("%s: no day is opened", name)
		}
		tasks := 0
		for _, shop := range whole.Shops {
			if shop.Phase != "revealed" || tasks == 3 {
				continue
			}
			tasks++
			url := "/v1/mystery/shops/" + shop.Shop
			var served, again verify.ShopReport
			if err := s.api.get(t.Context(), url+"/verify", nil, &served); err != nil {
				t.Fatal(err)
			}
			st.run(0, &again, "shop", "--json", base+url)
			var asked verify.ShopReport
			st.run(0, &asked, "shop", "--json", "--rpc", s.anchor.url, base+url)
			st.anchored(&asked)
			var offline verify.BundleReport
			st.run(0, &offline, "bundle", "--json", st.write("shop.json", s.fetch(t, "/v1/ledger/bundle?shop="+shop.Shop)))
			for _, c := range served.Checks {
				if (c.ID == "batch" || c.ID == "attestation") && c.Status != verify.Pass {
					t.Errorf("%s: %s %s: %s", shop.Shop, c.Status, c.ID, c.Detail)
				}
			}
			st.same(shop.Shop, shop.Verdict, served.Verdict, again.Verdict, offline.Verdict)
			if len(offline.Shops) != 1 {
				t.Errorf("the bundle of %s has %d slots", shop.Shop, len(offline.Shops))
			}
			st.run(0, &offline, "bundle", "--json", "--rpc", s.anchor.url, filepath.Join(st.dir, "shop.json"))
			for _, shop := range offline.Shops {
				st.anchored(shop)
			}
		}
		changed := bytes.Clone(data)
		changed[len(changed)/2] ^= 1
		st.run(3, nil, "bundle", st.write("changed.json", changed))
	}

	var batches struct{ Batches, Attestations int }
	st.run(0, &batches, "chain", "--json", "--rpc", s.anchor.url, base)
	if batches.Batches == 0 || batches.Attestations != batches.Batches {
		t.Errorf("chain says %+v, want an attestation of each batch", batches)
	}
	st.run(0, nil, "batch", "--rpc", s.anchor.url, base+"/v1/ledger/batches/1")

	s.days(t, 5.5)
	before := log.Size
	s.publishMore(t, before)
	st.run(0, &log, "log", "--json", "--state", state, base)
	if log.Seen != before || log.Size <= before {
		t.Errorf("log says %+v after it had seen %d records", log, before)
	}
}

// publishMore publishes until a checkpoint covers more than some records.
func (s *stage) publishMore(t *testing.T, size uint64) {
	t.Helper()
	for {
		if err := s.prog.PublishLedger(t.Context()); err != nil {
			t.Fatal(err)
		}
		h, err := s.prog.Ledger.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h.Size > size {
			return
		}
	}
}

// fetch returns an answer as it comes.
func (s *stage) fetch(t *testing.T, path string) []byte {
	t.Helper()
	status, body := s.probe(t, path)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d: %s", path, status, body)
	}
	return []byte(body)
}

// A stranger has the program and nothing else.
type stranger struct {
	t       *testing.T
	program string
	dir     string
}

// run runs the program and reads what it says as JSON.
func (st stranger) run(want int, into any, args ...string) {
	st.t.Helper()
	cmd := exec.CommandContext(st.t.Context(), st.program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	code := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		st.t.Fatal(err)
	}
	if code != want {
		for line := range strings.Lines(stdout.String()) {
			if !strings.Contains(line, "pass") {
				stderr.WriteString(line)
			}
		}
		st.t.Errorf("karatum-verify %v = %d, want %d\n%s", args, code, want, &stderr)
		return
	}
	if into != nil {
		if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
			st.t.Errorf("karatum-verify %v: %v", args, err)
		}
	}
}

// anchored checks that the attestations of a task are what the chain says.
func (st stranger) anchored(r *verify.ShopReport) {
	st.t.Helper()
	i := slices.IndexFunc(r.Checks, func(c verify.SlotCheck) bool { return c.ID == "attestation" })
	if i < 0 || r.Checks[i].Status != verify.Pass || !strings.Contains(r.Checks[i].Detail, "the chain says") {
		st.t.Errorf("%s: the checks are %+v, want that the chain says when it was attested", r.Shop, r.Checks)
	}
}

func (st stranger) write(name string, data []byte) string {
	st.t.Helper()
	file := filepath.Join(st.dir, name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		st.t.Fatal(err)
	}
	return file
}

// same compares verdicts.
func (st stranger) same(what string, want verify.Verdict, verdicts ...verify.Verdict) {
	st.t.Helper()
	for _, v := range verdicts {
		if v != want {
			st.t.Errorf("%s: the verdicts are %v, want %s", what, verdicts, want)
			return
		}
	}
}
