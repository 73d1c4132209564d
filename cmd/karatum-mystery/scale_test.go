package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/chaintest"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/house"
	"github.com/karatum/mystery/commands/keysocket"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/migrations/pgtest"
)

var (
	scaleCount = flag.Int("scale", 0, "how often TestScale runs; 0: not at all")
	scaleSeed  = flag.Uint64("scale-seed", 0, "what fixes the first run of TestScale; 0: the time of day")
)

// scaleWorld holds, in the environment of a process of [TestScale], where its world is.
const scaleWorld = "KARATUM_MYSTERY_SCALE"

// A place is the world of such a process.
type place struct {
	Clock string            // a file with the time
	Hosts map[string]string // where the hosts of agents are
}

// playScale is main of a process of [TestScale]: the program with a clock that it shares
// with the others, and with agents on this machine.
func playScale(text string) int {
	var at place
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := &program{getenv: os.Getenv, stdout: os.Stdout, stderr: os.Stderr, world: world{
		net: agents.Loopback(time.Now, at.Hosts), now: at.now, pause: 100 * time.Millisecond,
	}}
	return p.run(ctx, os.Args[1:])
}

// now reads the clock.
func (p place) now() time.Time {
	text, err := os.ReadFile(p.Clock)
	var t time.Time
	if err == nil {
		err = t.UnmarshalText(text)
	}
	if err != nil {
		panic(fmt.Sprintf("the clock cannot be read: %v", err))
	}
	return t
}

// set moves the clock, which nobody ever finds half written.
func (p place) set(t *testing.T, to time.Time) {
	t.Helper()
	text, err := to.MarshalText()
	if err == nil {
		err = os.WriteFile(p.Clock+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(p.Clock+".new", p.Clock)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestScale runs the programme for a day and a half of its own time in five processes,
// two that serve and three that work, on one database, while they are killed, or stopped
// until others have taken over their leases. Nothing is sent twice, every task comes to
// one end, and all checks hold afterwards.
func TestScale(t *testing.T) {
	t.Parallel()
	if *scaleCount == 0 {
		t.Skip("make test-scale runs it")
	}
	first := *scaleSeed
	if first == 0 {
		first = uint64(time.Now().Unix())
	}
	for seed := first; seed < first+uint64(*scaleCount); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runScale(t, seed) }) //nolint:paralleltest // one run takes the whole machine
	}
}

const (
	houseHost = "agents.example:8443"
	houseBase = "http://" + houseHost
	tick      = 250 * time.Millisecond // of real time
	stride    = 5 * time.Minute        // of programme time, which passes in a tick
)

var scaleStart = time.Date(2026, 3, 1, 20, 50, 0, 0, time.UTC)

// A scene is what a run of [TestScale] is made of.
type scene struct {
	place

	seed    uint64
	random  *rand.Rand
	env     map[string]string
	dir     string
	admin   *pgx.Conn
	crew    []*member
	asked   *askedAt
	chain   *devchain.Chain
	node    string // where it is asked
	eas     eas.Deployment
	verdict string // the program that checks the log
}

// A member is one of the processes.
type member struct {
	args    []string
	cmd     *exec.Cmd
	log     *lines
	resumes int // the tick at which it goes on, if it is stopped
}

func (m *member) serves() bool { return m.args[0] == "serve" }

func runScale(t *testing.T, seed uint64) {
	t.Helper()
	s := newScene(t, seed)
	t.Logf("seed %d", seed)
	s.start(t, 0)
	eventuallyAnswered(t, s.env["MYSTERY_KEYS_SOCKET"])
	for i := range s.crew[1:] {
		s.start(t, i+1)
	}
	s.enrol(t)
	kills, stops := 0, 0
	end := domain.DayStart(domain.DayOf(scaleStart) + 2).Add(4 * time.Hour)
	calm := domain.DayStart(domain.DayOf(scaleStart) + 2) // from then on nobody is disturbed
	for n, now := 0, scaleStart; now.Before(end); n, now = n+1, now.Add(stride) {
		s.pass(t, now)
		time.Sleep(tick)
		s.resume(t, n, !now.Before(calm))
		if now.Before(calm) && s.random.IntN(10) == 0 {
			if s.disturb(t, n) {
				kills++
			} else {
				stops++
			}
		}
		s.look()
	}
	s.check(t)
	t.Logf("seed %d: %d kills, %d stops", seed, kills, stops)
	if kills == 0 || stops == 0 {
		t.Errorf("nothing happened: %d kills and %d stops", kills, stops)
	}
}

func newScene(t *testing.T, seed uint64) *scene {
	t.Helper()
	getenv := env(t, nil)
	s := &scene{seed: seed, random: rand.New(rand.NewPCG(seed, 0)), dir: filepath.Dir(getenv("MYSTERY_STATE_DIR")), asked: newAskedAt()}
	var err error
	if s.admin, err = pgx.Connect(t.Context(), pgtest.URL(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.admin.Close(context.Background()) })
	url := newDatabase(t, s.admin, "scale")
	if s.admin, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.admin.Close(context.Background()) })
	s.verdict = filepath.Join(s.dir, "karatum-verify")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.verdict, "../karatum-verify").CombinedOutput(); err != nil {
		t.Fatalf("build karatum-verify: %v\n%s", err, out)
	}
	wallet := scaleWallet()
	agents := httptest.NewServer(s.asked.count(house.Handler(house.Options{Base: houseBase, Owner: eip191.AddressOf(wallet.PubKey())})))
	t.Cleanup(agents.Close)
	s.place = place{Clock: filepath.Join(s.dir, "clock"), Hosts: map[string]string{houseHost: strings.TrimPrefix(agents.URL, "http://")}}
	s.set(t, scaleStart)
	s.openChain(t)
	s.env = map[string]string{
		"MYSTERY_RPC_1337": s.node, "MYSTERY_ATTEST_CHAIN": "1337", "MYSTERY_ATTEST_CONFIRMATIONS": "1",
		"MYSTERY_ATTEST_EAS": s.eas.EAS.Hex(), "MYSTERY_ATTEST_REGISTRY": s.eas.Registry.Hex(), "MYSTERY_ATTESTER_KEY_FILE": filepath.Join(s.dir, "attester.key"),
		"MYSTERY_DATABASE_URL": url, "MYSTERY_KEYS_SOCKET": filepath.Join(s.dir, "keys.sock"),
		"MYSTERY_RPC_84532": "none", "MYSTERY_RPC_11155111": "none", "HOME": s.dir, "PATH": os.Getenv("PATH"),
	}
	for range 3 {
		s.crew = append(s.crew, &member{args: []string{"work"}, log: new(lines)})
	}
	for range 2 {
		s.crew = append(s.crew, &member{args: []string{"serve", "--listen", "127.0.0.1:0"}, log: new(lines)})
	}
	t.Cleanup(func() {
		for _, m := range s.crew {
			if m.cmd != nil {
				_ = m.cmd.Process.Kill()
				_ = m.cmd.Wait() // it was killed
			}
		}
	})
	return s
}

// openChain starts the chain that batches are attested on. It is in the process of the
// test, whose blocks are made as the clock moves.
func (s *scene) openChain(t *testing.T) {
	t.Helper()
	const chainID = 1337
	key := chaintest.Key(3)
	var err error
	s.chain, err = devchain.New(devchain.Config{ChainID: chainID, Rich: []common.Address{chaintest.Address(key)}, Now: s.now, Finality: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.chain.Close() })
	if s.eas, err = eascontracts.Deploy(t.Context(), s.chain, key); err != nil {
		t.Fatal(err)
	}
	node := httptest.NewServer(s.chain.Handler())
	t.Cleanup(node.Close)
	s.node = node.URL
	if err := os.WriteFile(filepath.Join(s.dir, "attester.key"), []byte(hex.EncodeToString(crypto.FromECDSA(key))), 0o600); err != nil {
		t.Fatal(err)
	}
}

func scaleWallet() *secp256k1.PrivateKey {
	key := domain.Sum([]byte("wallet"))
	return secp256k1.PrivKeyFromBytes(key[:])
}

// start starts a member, the first one or one that was killed.
func (s *scene) start(t *testing.T, i int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	world, err := json.Marshal(s.place)
	if err != nil {
		t.Fatal(err)
	}
	m := s.crew[i]
	m.log = new(lines)
	m.cmd = exec.CommandContext(t.Context(), self, m.args...)
	m.cmd.Env = []string{scaleWorld + "=" + string(world)}
	for name, value := range s.env {
		m.cmd.Env = append(m.cmd.Env, name+"="+value)
	}
	state := filepath.Join(s.dir, "keys") // those that work share the secrets
	if m.serves() {
		state = filepath.Join(s.dir, "none")
	}
	m.cmd.Env = append(m.cmd.Env, "MYSTERY_STATE_DIR="+state)
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// disturb kills a process, which is started again, or stops one for a while, in which all
// leases run out. It reports whether it killed.
func (s *scene) disturb(t *testing.T, n int) (killed bool) {
	t.Helper()
	i := s.random.IntN(len(s.crew))
	m := s.crew[i]
	if kill := s.random.IntN(2) == 0; kill || m.resumes > 0 {
		if err := m.cmd.Process.Kill(); err != nil {
			t.Fatalf("%s: %v; it said %s", m.args, err, m.log)
		}
		_ = m.cmd.Wait() // it was killed
		s.noRace(t, m)
		m.resumes = 0
		s.start(t, i)
		return true
	}
	if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatalf("%s: %v; it said %s", m.args, err, m.log)
	}
	m.resumes = n + 2 + s.random.IntN(12)
	return false
}

// pass lets it be a moment, for the chain too.
func (s *scene) pass(t *testing.T, now time.Time) {
	t.Helper()
	s.set(t, now)
	if _, err := s.chain.Mine(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// resume lets those go on whose time has come, or all. The leases of one that was stopped
// have run out by then, as they do when it takes a minute.
func (s *scene) resume(t *testing.T, n int, all bool) {
	t.Helper()
	for _, m := range s.crew {
		if m.resumes == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := s.admin.Exec(ctx, `update mystery.leases set until = clock_timestamp() - interval '1 second'`); err != nil {
			t.Fatal(err)
		}
		cancel()
		if all || n >= m.resumes {
			m.resumes = 0
			if err := m.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatalf("%s: %v; it said %s", m.args, err, m.log)
			}
		}
	}
}

// base returns where a member serves, "" if it does not.
func (m *member) base() string {
	if at := serving.FindStringSubmatch(m.log.String()); at != nil {
		return "http://" + at[1]
	}
	return ""
}

// look reads what is public, from whoever serves. That nobody does now and then is in the
// nature of the test.
func (s *scene) look() {
	c := http.Client{Timeout: time.Second}
	for _, m := range s.crew {
		if base := m.base(); base != "" && m.resumes == 0 {
			if res, err := c.Get(base + "/v1/mystery"); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		}
	}
}

// enrol registers two agents and lets their owner consent, through one that serves.
func (s *scene) enrol(t *testing.T) {
	t.Helper()
	for i, name := range []string{"steady", "exam-aware"} {
		s.program(t, "agent", "register", "--build", name, "--wallet", eip191.AddressOf(scaleWallet().PubKey()).String(), "--demo")
		base := "http://" + s.crew[3+i].log.find(t, serving)
		url := houseBase + "/demo-agents/" + name
		var challenge struct {
			ChallengeID, Message string
			Payload              json.RawMessage
		}
		s.post(t, base+"/v1/mystery/consents/challenge", map[string]any{
			"agent": "build:" + name, "kinds": []string{"a2a", "mcp"}, "maxPerDay": 24, "maxPerWeek": 100, "revealDelaySeconds": 3600, "validityDays": 30,
			"endpoints": []map[string]string{{"kind": "a2a", "url": url}, {"kind": "mcp", "url": url + "/mcp"}},
		}, &challenge)
		s.post(t, base+"/v1/mystery/consents", map[string]any{
			"challengeId": challenge.ChallengeID, "payload": challenge.Payload, "signature": eip191.Sign(challenge.Message, scaleWallet()),
		}, new(any))
	}
}

// program runs a command of the operator.
func (s *scene) program(t *testing.T, args ...string) string {
	t.Helper()
	getenv := func(name string) string {
		if name == "MYSTERY_STATE_DIR" {
			return filepath.Join(s.dir, "keys")
		}
		return s.env[name]
	}
	var stdout bytes.Buffer
	p := &program{getenv: getenv, stdout: &stdout, stderr: t.Output(), world: world{net: agents.Loopback(time.Now, s.Hosts), now: s.now}}
	if code := p.run(t.Context(), args); code != 0 {
		t.Errorf("%s = %d: %s", args, code, &stdout)
	}
	return stdout.String()
}

func (s *scene) post(t *testing.T, url string, body, into any) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 {
		t.Fatalf("%s: %s, %s, %v", url, res.Status, text, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// check waits until the day is opened, lets all processes end, and looks at what came of
// it.
func (s *scene) check(t *testing.T) {
	t.Helper()
	var events []record
	for round := 0; ; round++ {
		if events = s.events(t); opened(events) == 2 {
			break
		}
		if round > 120 {
			t.Fatalf("%d days are opened, want one of each of two consents", opened(events))
		}
		s.pass(t, s.now().Add(time.Minute))
		time.Sleep(time.Second)
	}
	base := "http://" + s.crew[3].log.find(t, serving)
	eventually(t, base+"/readyz", "ok")
	for _, args := range [][]string{{"log", base}, {"chain", base, "--rpc", s.node}} {
		out, err := exec.CommandContext(t.Context(), s.verdict, args...).CombinedOutput()
		if err != nil {
			t.Errorf("karatum-verify %s: %v\n%s", args, err, out)
		}
	}
	for _, m := range s.crew {
		if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, m := range s.crew {
		if err := m.cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v; it said %s", m.args, err, m.log)
		}
		s.noRace(t, m)
		m.cmd = nil
	}
	if out := s.program(t, "ledger", "verify"); !strings.Contains(out, "all is well") {
		t.Errorf("verify: %s", out)
	}
	s.checkOnce(t, s.events(t))
}

// noRace fails the test if the race detector has found something in a process.
func (s *scene) noRace(t *testing.T, m *member) {
	t.Helper()
	if text := m.log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
		t.Errorf("%s said %s", m.args, text)
	}
}

// A record is one of the ledger, decoded.
type record struct {
	ledger.Record

	event domain.Event
}

func (s *scene) events(t *testing.T) (list []record) {
	t.Helper()
	c := assembly.ConfigFrom(func(name string) string { return s.env[name] })
	store, err := assembly.OpenStore(t.Context(), c, assembly.Options{Join: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for r, err := range store.Log.After(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := store.Catalog.Decode(r.Type, r.Data)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, record{r, e})
	}
	return list
}

func opened(events []record) (n int) {
	for _, r := range events {
		if e, ok := r.event.(plan.Opened); ok && e.Day == domain.DayOf(scaleStart)+1 {
			n++
		}
	}
	return n
}

// checkOnce checks that nothing was done twice.
func (s *scene) checkOnce(t *testing.T, events []record) {
	t.Helper()
	sent, ends := make(map[ledger.Stream]int), make(map[ledger.Stream]int)
	asks, outcomes := make(map[domain.Hash]int), make(map[string]int)
	batches, attested := 0, 0
	for _, r := range events {
		switch e := r.event.(type) {
		case shop.Sent:
			sent[r.Stream]++
			asks[e.Ask]++
		case batch.Sealed:
			batches++
		case batch.Attested:
			attested++
		case shop.Judged, shop.Missed, shop.Cancelled:
			ends[r.Stream]++
		case shop.Revealed:
			outcomes[string(e.Result.State)]++
			if ends[r.Stream] != 1 {
				t.Errorf("%s came to %d ends before it was revealed", r.Stream, ends[r.Stream])
			}
		}
	}
	for stream, n := range sent {
		if n > 1 || ends[stream] != 1 {
			t.Errorf("%s was sent %d times and came to %d ends", stream, n, ends[stream])
		}
	}
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	for ask, n := range s.asked.n {
		if n > asks[ask] {
			t.Errorf("an agent was asked %d times what %d tasks ask: %s", n, asks[ask], ask)
		}
	}
	t.Logf("seed %d: %d records, %d tasks sent, %d questions came to the agents; the tasks ended as %v; %d batches, %d attested",
		s.seed, len(events), len(sent), len(s.asked.n), outcomes, batches, attested)
	if len(sent) == 0 || attested == 0 {
		t.Error("nothing was sent or attested: this machine is too slow for the test")
	}
}

// askedAt counts the questions that agents are asked.
type askedAt struct {
	mu sync.Mutex
	n  map[domain.Hash]int // by hash of the question
}

func newAskedAt() *askedAt { return &askedAt{n: make(map[domain.Hash]int)} }

// count counts what is asked of next.
func (a *askedAt) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // whoever asked is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if ask, ok := askIn(body); ok {
			a.mu.Lock()
			a.n[ask.Hash()]++
			a.mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

// askIn returns the question in a request, if there is one.
func askIn(body []byte) (ask task.Ask, ok bool) {
	var message struct {
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Message   struct {
				Parts []struct {
					Text string `json:"text"`
				} `json:"parts"`
			} `json:"message"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &message) != nil {
		return ask, false // a request without a body
	}
	ask.Tool, ask.Arguments = message.Params.Name, message.Params.Arguments
	for _, part := range message.Params.Message.Parts {
		ask.Text += part.Text
	}
	return ask, ask.Tool != "" || ask.Text != ""
}

// eventuallyAnswered waits until somebody answers for plan key roots.
func eventuallyAnswered(t *testing.T, socket string) {
	t.Helper()
	c := keysocket.Client{Path: socket, Log: slog.New(slog.DiscardHandler)}
	var err error
	for range 600 {
		if _, err = c.KeyRoot(t.Context(), domain.Hash{1}, 20600, consent.MinValidity); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("nobody answers for plan key roots: %v", err)
}
