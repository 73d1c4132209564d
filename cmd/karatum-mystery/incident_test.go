package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/migrations/pgtest"
)

// A desk is where an operator types commands, at a database of its own.
type desk struct {
	t      *testing.T
	url    string
	getenv func(string) string
}

func newDesk(t *testing.T, more map[string]string) *desk {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	url := newDatabase(t, admin, "desk")
	settings := map[string]string{"MYSTERY_DATABASE_URL": url}
	maps.Copy(settings, more)
	return &desk{t, url, env(t, settings)}
}

// do runs a command, and wants an exit code and a text in what it says.
func (d *desk) do(code int, says string, args ...string) (out string) {
	d.t.Helper()
	var stdout, stderr bytes.Buffer
	got := run(d.t.Context(), args, d.getenv, &stdout, &stderr)
	if got != code || !strings.Contains(stdout.String()+stderr.String(), says) {
		d.t.Errorf("%s = %d, %s%s, want %d and %q", strings.Join(args, " "), got, &stdout, &stderr, code, says)
	}
	return stdout.String()
}

// maintainer makes a key, and registers it under a name unless that is "".
func (d *desk) maintainer(name string) (file string) {
	d.t.Helper()
	file = filepath.Join(d.t.TempDir(), "maintainer.key")
	var made struct{ Key, File string }
	if err := json.Unmarshal([]byte(d.do(0, "", "programme", "maintainer-key", file, "--json")), &made); err != nil || made.File != file {
		d.t.Fatalf("maintainer-key printed %+v (%v)", made, err)
	}
	if name != "" {
		d.do(0, name+" is a maintainer", "programme", "add-maintainer", name, "--key", made.Key)
	}
	return file
}

// a willing host lists every owner.
type willing struct{}

func (willing) Check(string) error                                  { return nil }
func (willing) Prove(context.Context, string, eip191.Address) error { return nil }

// found lets an agent be caught: its owner gave a consent, and two comparisons are
// exam_only behind the gate, the first of which opens an incident. It returns the consent,
// and a func by which the owner replies to the finding of a look.
func (d *desk) found() (consentID string, reply func(look int, text string)) {
	d.t.Helper()
	key := secp256k1.PrivKeyFromBytes([]byte("an owner's key, for tests only.."))
	d.do(0, "", "agent", "register", "--build", "42", "--wallet", eip191.AddressOf(key.PubKey()).String(), "--certificate", "crt-1")
	prog := d.open()
	ok := func(err error) {
		d.t.Helper()
		if err != nil {
			d.t.Fatal(err)
		}
	}
	prog.Service.Hosts = willing{}
	c, err := prog.Service.Challenge(d.t.Context(), consent.Request{
		Agent: "build:42", Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: "https://agent.example/a2a"}}, Kinds: []task.Kind{task.A2A},
		MaxPerDay: 12, MaxPerWeek: 60, RevealDelaySeconds: 3600, ValidityDays: 30,
	})
	ok(err)
	sig := eip191.Sign(c.Message, key)
	_, err = prog.Service.Grant(d.t.Context(), c.ChallengeID, c.Payload, sig[:], domain.Hash{})
	ok(err)
	consentID = plan.ConsentID(c.Payload.Nonce)
	for look := 1; look <= 2; look++ {
		var e finding.Reached
		data, err := os.ReadFile("../../domain/finding/testdata/finding.reached.v1.json")
		ok(err)
		ok(json.Unmarshal(data, &e))
		e.Consent, e.Agent, e.Day, e.Look = consentID, agent.Ref("build:42"), c.Payload.FirstDay+uint32(look), look
		ok(prog.Service.Finding(d.t.Context(), ledger.Meta{Actor: "worker", Command: finding.ID(consentID, look)}, consentID, finding.Reach(e)))
	}
	ok(prog.Service.OpenIncident(d.t.Context(), consentID, 1))
	return consentID, func(look int, text string) {
		d.t.Helper()
		prog := d.open()
		r := commands.Reply{Finding: finding.ID(consentID, look), Text: text}
		c, err := prog.Service.ChallengeReply(d.t.Context(), r.Finding, text)
		ok(err)
		sig := eip191.Sign(c.Message, key)
		r.ChallengeID, r.Salt, r.Signature = c.ChallengeID, c.Salt, sig[:]
		ok(prog.Service.FileReply(d.t.Context(), r))
	}
}

func (d *desk) open() *assembly.Programme {
	d.t.Helper()
	p := &program{getenv: d.getenv, stdout: d.t.Output(), stderr: d.t.Output()}
	prog, err := p.join(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(prog.Close)
	return prog
}

// An incident is taken through its life by two maintainers. What is refused says what to
// do instead.
func TestIncidentCommands(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"MYSTERY_INCIDENT_SEVERITY": "high"})
	ann, bob, stranger := d.maintainer("Ann"), d.maintainer("Bob"), d.maintainer("")
	d.do(0, "Ann, key", "programme", "status")
	d.do(exitError, "new file", "programme", "maintainer-key", ann)
	d.do(exitRefused, "Ann has a key; retire it first", "programme", "add-maintainer", "Ann", "--key", strings.Repeat("1", 64))
	d.do(exitUsage, "--key", "programme", "add-maintainer", "Cid", "--key", "none")
	d.do(0, "there are no incidents", "incident", "list")
	consentID, reply := d.found()
	inc, fnd := incident.ID(consentID), finding.ID(consentID, 1)

	var listed struct{ Incidents []incidentLine }
	if err := json.Unmarshal([]byte(d.do(0, "", "incident", "list", "--json")), &listed); err != nil || len(listed.Incidents) != 1 {
		t.Fatalf("incident list --json shows %+v (%v)", listed, err)
	}
	if i := listed.Incidents[0]; i.Incident != inc || i.Finding != fnd || i.Public || i.Stage != incident.Reported || i.Severity.Score != "7.0" || i.Version != 1 {
		t.Errorf("the incident is listed as %+v", i)
	}
	d.do(0, "7.0 high  reported, private", "incident", "list")
	d.do(0, "incident.opened.v1", "incident", "show", inc)
	d.do(exitNotFound, "incident list names them", "incident", "show", "inc_aaaaaaaaaaaaaaaaaaaa")

	act := func(code int, says, command, key string, more ...string) string {
		t.Helper()
		return d.do(code, says, append([]string{"incident", command, inc, "--text", "as it was found", "--key", key}, more...)...)
	}
	d.do(exitUsage, "confirm", "incident", "triage", inc, "--text", "x", "--key", ann)
	act(exitUsage, "none of the others", "triage", ann, "--confirm", "--reject")
	d.do(exitUsage, "is not the id of an incident", "incident", "triage", "inc_1", "--confirm", "--text", "x", "--key", ann)
	d.do(exitNotFound, "incident list names them", "incident", "triage", "inc_aaaaaaaaaaaaaaaaaaaa", "--confirm", "--text", "x", "--key", ann)
	act(exitRefused, "add-maintainer", "triage", stranger, "--confirm")
	act(exitError, "the key of a maintainer", "triage", stranger+".not", "--confirm")
	if err := os.Chmod(bob, 0o644); err != nil {
		t.Fatal(err)
	}
	act(exitRefused, "chmod 600", "triage", bob, "--confirm")
	if err := os.Chmod(bob, 0o600); err != nil {
		t.Fatal(err)
	}
	d.do(exitUsage, "reason", "incident", "triage", inc, "--confirm", "--text", " ", "--key", ann)
	var stands struct {
		Stage    incident.Stage
		Recalled bool
		Version  uint64
	}
	if err := json.Unmarshal([]byte(act(0, "", "triage", ann, "--confirm", "--json")), &stands); err != nil || stands.Stage != incident.StageConfirmed || stands.Version != 2 {
		t.Errorf("triage --json printed %+v (%v)", stands, err)
	}
	act(exitRefused, "is confirmed, and to reject it is not possible", "triage", bob, "--reject")
	act(exitRefused, "is confirmed, and to close it is not possible", "close", bob)
	act(exitRefused, "is confirmed, and to correct it is not possible", "correct", bob)
	act(exitRefused, "is confirmed, and to recall it is not possible", "recall", ann, "--second-key", bob)
	act(exitRefused, "the owner has until", "disclose", bob)

	reply(1, "An outage of our upstream.")
	d.do(0, "1 replies so far", "incident", "show", inc)
	act(0, "disclose done, it is disclosed now", "disclose", bob)
	act(exitUsage, "second-key", "recall", ann)
	act(exitRefused, "each with a key of their own", "recall", ann, "--second-key", ann)
	act(exitRefused, "add-maintainer", "recall", ann, "--second-key", stranger)
	if err := json.Unmarshal([]byte(act(0, "", "recall", ann, "--second-key", bob, "--json")), &stands); err != nil || !stands.Recalled {
		t.Errorf("recall --json printed %+v (%v)", stands, err)
	}
	act(0, "correct done", "correct", ann)
	act(0, "it is resolved now", "close", bob)
	d.do(0, "resolved, certificate recalled", "incident", "list")
	d.do(0, "all is well", "ledger", "verify")
}

// A finding is corrected by a maintainer, and not by one who was.
func TestFindingCommands(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	ann := d.maintainer("Ann")
	consentID, reply := d.found()
	fnd := finding.ID(consentID, 1)
	d.do(0, "is corrected", "finding", "correct", fnd, "--text", "two tasks were ours", "--key", ann)
	d.do(0, `"corrections":2`, "finding", "correct", fnd, "--text", "three, in fact", "--key", ann, "--json")
	d.do(exitUsage, "text", "finding", "correct", fnd, "--key", ann)
	d.do(exitUsage, "is not the id of a finding", "finding", "correct", "fnd_1", "--text", "x", "--key", ann)
	d.do(exitNotFound, "there is no finding", "finding", "correct", finding.ID(consentID, 3), "--text", "x", "--key", ann)
	d.do(exitRefused, "add-maintainer", "finding", "correct", fnd, "--text", "x", "--key", d.maintainer(""))
	d.do(exitRefused, "takes a high or critical one", "incident", "recall", incident.ID(consentID), "--text", "x", "--key", ann, "--second-key", d.maintainer("Bob"))

	d.do(exitNotFound, "nobody", "programme", "retire-maintainer", "nobody", "--reason", "left")
	d.do(exitUsage, "reason", "programme", "retire-maintainer", "Ann")
	d.do(0, "Ann is no maintainer any more", "programme", "retire-maintainer", "Ann", "--reason", "left the house")
	d.do(0, "left the house", "programme", "status")
	d.do(exitRefused, "is retired", "finding", "correct", fnd, "--text", "all of them", "--key", ann)
	d.do(0, "Ann is a maintainer", "programme", "add-maintainer", "Ann", "--key", strings.Repeat("1", 64))

	// What the owner replied can be erased, and then alone may it be missing.
	d.do(exitNotFound, "nobody replied", "ledger", "erase", "--finding", fnd, "--reason", "asked for")
	reply(1, "Call me at home, 555 0100.")
	reply(2, "It was fixed.")
	d.do(0, "the reply is erased", "ledger", "erase", "--finding", fnd, "--reason", "the owner asked for it")
	d.do(0, `"finding":"`+fnd+`"`, "ledger", "erase", "--finding", fnd, "--reason", "once more", "--json")
	d.do(0, "all is well", "ledger", "verify")
	conn, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var left int
	if err := conn.QueryRow(t.Context(), `select count(*) from mystery.bodies where starts_with(key, 'finding-reply/')`).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d texts are left (%v), want that of the other finding", left, err)
	}
	if _, err := conn.Exec(t.Context(), `delete from mystery.bodies where starts_with(key, 'finding-reply/')`); err != nil {
		t.Fatal(err)
	}
	d.do(exitDamaged, "the reply to finding "+finding.ID(consentID, 2), "ledger", "verify")
}

// Trial attempts are recorded and withdrawn by hand where no harness writes them.
func TestExamCommands(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.do(0, "", "agent", "register", "--build", "42", "--wallet", wallet)
	record := func(code int, says, attempt, ref, outcome string, more ...string) {
		t.Helper()
		d.do(code, says, append([]string{"exam", "record", attempt, "--agent", ref, "--family", "unit", "--outcome", outcome}, more...)...)
	}
	record(0, "attempt t-1 of build:42 is recorded", "t-1", "build:42", "SUCCESS", "--latency-ms", "812")
	record(0, `"is":"recorded"`, "t-1", "build:42", "SUCCESS", "--latency-ms", "812", "--json")
	record(exitRefused, "withdraw it first", "t-1", "build:42", "FAILURE")
	record(exitUsage, "SUCCESS, PARTIAL, FAILURE", "t-2", "build:42", "success")
	record(exitUsage, "latency", "t-2", "build:42", "PARTIAL", "--latency-ms", "-1")
	record(exitUsage, "--agent", "t-2", "42", "PARTIAL")
	record(exitNotFound, "is not registered", "t-2", "build:43", "PARTIAL")
	d.do(exitUsage, "family", "exam", "record", "t-2", "--agent", "build:42", "--outcome", "PARTIAL")

	withdraw := func(code int, says, attempt, reason string) {
		t.Helper()
		d.do(code, says, "exam", "withdraw", attempt, "--agent", "build:42", "--reason", reason)
	}
	withdraw(exitUsage, "reason", "t-1", " ")
	withdraw(exitNotFound, "there is no attempt t-9", "t-9", "two right answers")
	withdraw(0, "attempt t-1 of build:42 is withdrawn", "t-1", "two right answers")
	withdraw(0, "is withdrawn", "t-1", "two right answers")
	record(exitRefused, "under an id of its own", "t-1", "build:42", "SUCCESS")
	d.do(0, "all is well", "ledger", "verify")
}
