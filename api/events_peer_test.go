//go:build peers

package api_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/karatum/mystery/domain/producer/producertest"
	"github.com/karatum/mystery/domain/session"
)

// A request that a library of others has signed is taken, and not if it is another one.
func TestPeerHTTPMessageSignatures(t *testing.T) {
	t.Parallel()
	peers := os.Getenv("PEERS")
	if peers == "" {
		t.Fatal("PEERS does not name the folder of the peers; run make test-peers")
	}
	w := newWorld(t).furnish().admit()
	der, err := x509.MarshalPKCS8PrivateKey(recorder.Private)
	w.ok(err)
	event := encode(signEvent(t, recorder, session.StreamOf("ses_1"), "opened", openedSession("ses_1")))
	headers := map[string]string{"Content-Type": "application/cloudevents+json", "Idempotency-Key": "peer-1"}
	sign := exec.CommandContext(t.Context(), "node", filepath.Join(peers, "httpsig.mjs"))
	sign.Stderr = t.Output()
	sign.Stdin = bytes.NewReader([]byte(encode(map[string]any{
		"method": http.MethodPost, "url": "https://karatum.com/v1/ledger/events", "headers": headers, "body": event,
		"key":   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"keyid": recorder.Name + "/" + producertest.KeyID, "nonce": "a nonce of the peer", "created": w.clock().Unix(),
	})))
	out, err := sign.Output()
	w.ok(err)
	w.ok(json.Unmarshal(out, &headers))
	var list []string
	for name, value := range headers {
		list = append(list, name, value)
	}
	if a := w.do(http.MethodPost, "/v1/ledger/events", event+" ", list...); a.status != http.StatusBadRequest {
		t.Errorf("with another body: %d: %s", a.status, a.body)
	}
	if a := w.do(http.MethodPost, "/v1/ledger/events", event, append(list, "Idempotency-Key", "peer-2")...); a.status != http.StatusUnauthorized {
		t.Errorf("with another header: %d: %s", a.status, a.body)
	}
	if a := w.do(http.MethodPost, "/v1/ledger/events", event, list...); a.status != http.StatusCreated {
		t.Errorf("as it was signed: %d: %s", a.status, a.body)
	}
}
