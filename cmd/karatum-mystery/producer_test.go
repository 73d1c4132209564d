package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/api/client/producers"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/session"
)

// publicKey writes the public half of a key as openssl does.
func publicKey(t *testing.T, key ed25519.PrivateKey) (file string) {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An operator lets a recorder of sessions write, gives it another key, and revokes it,
// while the service runs.
func TestProducers(t *testing.T) {
	t.Parallel()
	getenv := env(t, map[string]string{"MYSTERY_OPERATOR_ADDR": "127.0.0.1:0"})
	ctx, stop := context.WithCancel(t.Context())
	log := new(lines)
	served := make(chan int, 1)
	go func() { served <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0"}, getenv, io.Discard, log) }()
	base := "http://" + log.find(t, serving)
	do := func(args ...string) (string, string, int) {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), args, getenv, &stdout, &stderr)
		return stdout.String(), stderr.String(), code
	}
	first := ed25519.NewKeyFromSeed([]byte("the first key of a recorder ...."))
	second := ed25519.NewKeyFromSeed([]byte("the second key of a recorder ..."))
	if _, msg, code := do("producer", "register", "--id", "recorder", "--key-id", "2026-10", "--public-key", publicKey(t, first),
		"--type", "session.*", "--stream", "session/"); code != 0 {
		t.Fatalf("register = %d (%s)", code, msg)
	}
	if _, msg, code := do("producer", "register", "--id", "recorder", "--key-id", "2026-10", "--public-key", publicKey(t, first),
		"--type", "session.*", "--stream", "session/"); code != exitRefused {
		t.Errorf("registering twice = %d (%s), want %d", code, msg, exitRefused)
	}
	send := func(key ed25519.PrivateKey, name, id string, e producer.Source) error {
		t.Helper()
		c := producers.Client{
			URL: base, Authority: "localhost:8080", Signer: producer.Signer{Producer: "recorder", Key: name, Private: key}, Now: time.Now,
		}
		event, err := c.Sign("session/ses_1", e, id, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Send(t.Context(), event)
		return err
	}
	refused := func(err error, problem string) {
		t.Helper()
		if r, ok := errors.AsType[*producers.Refusal](err); !ok || r.Type != problem {
			t.Errorf("Send() = %v, want %s", err, problem)
		}
	}
	act := func(n int64) session.ActionRecorded {
		return session.ActionRecorded{Session: "ses_1", N: n, Actor: "agent", Action: "message", Decision: "none", At: "2026-10-16T10:00:00Z"}
	}
	if err := send(first, "2026-10", "opened", session.Opened{Session: "ses_1", Agent: "build:42", Kind: session.Runtime, StartedAt: "2026-10-16T10:00:00Z"}); err != nil {
		t.Fatal(err)
	}
	if _, msg, code := do("producer", "rotate", "--id", "recorder", "--key-id", "2026-11", "--public-key", publicKey(t, second), "--overlap", "0"); code != 0 {
		t.Fatalf("rotate = %d (%s)", code, msg)
	}
	refused(send(first, "2026-10", "0", act(0)), "unknown-producer")
	if err := send(second, "2026-11", "0", act(0)); err != nil {
		t.Error(err)
	}
	if _, msg, code := do("producer", "revoke", "--id", "recorder", "--reason", "its machine was lost"); code != 0 {
		t.Fatalf("revoke = %d (%s)", code, msg)
	}
	refused(send(second, "2026-11", "1", act(1)), "producer-revoked")
	if _, msg, code := do("producer", "revoke", "--id", "nobody", "--reason", "x"); code != exitNotFound {
		t.Errorf("revoking nobody = %d (%s), want %d", code, msg, exitNotFound)
	}

	out, _, code := do("producer", "list", "--json")
	var listed struct {
		Producers []shownProducer `json:"producers"`
	}
	if err := json.Unmarshal([]byte(out), &listed); code != 0 || err != nil || len(listed.Producers) != 1 {
		t.Fatalf("list = %d, %s (%v)", code, out, err)
	}
	if p := listed.Producers[0]; p.State != "revoked" || len(p.Keys) != 2 || len(p.Types) != 3 {
		t.Errorf("list shows %+v", p)
	}
	metrics := eventually(t, "http://"+log.find(t, operating)+"/metrics", `mystery_producer_requests_total{outcome="recorded"} 2`)
	if !strings.Contains(metrics, `mystery_producer_requests_total{outcome="producer-revoked"} 1`) {
		t.Errorf("the refusals are not counted: %s", metrics)
	}
	if out, msg, code := do("ledger", "verify"); code != 0 {
		t.Errorf("ledger verify = %d: %s%s", code, out, msg)
	}
	stop()
	if code := <-served; code != 0 {
		t.Errorf("serve = %d after being stopped, want 0; it said %s", code, log)
	}
}

func TestBadCommandLinesOfProducers(t *testing.T) {
	t.Parallel()
	good := publicKey(t, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	none := filepath.Join(t.TempDir(), "none.pub")
	if err := os.WriteFile(none, []byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, id, key, file, typ, days, says string
	}{
		{"a name with blanks", "Shield Runner", "1", good, "shield.*", "1", "lower-case"},
		{"a type that is the shopper's", "a", "1", good, "shop.*", "1", "--type"},
		{"no such file", "a", "1", good + ".not", "shield.*", "1", "--public-key"},
		{"no key in it", "a", "1", none, "shield.*", "1", "no public key"},
		{"a key for ever", "a", "1", good, "shield.*", "100000", "--days"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			args := []string{
				"producer", "register", "--id", tt.id, "--key-id", tt.key, "--public-key", tt.file,
				"--type", tt.typ, "--stream", "shield-case/", "--days", tt.days,
			}
			if code := run(t.Context(), args, env(t, nil), io.Discard, &stderr); code == 0 || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("run(%v) = %d and says %q, want %q in it", args, code, &stderr, fmt.Sprint(tt.says))
			}
		})
	}
}
