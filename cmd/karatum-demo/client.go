package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
)

// A client uses the public API as an owner and as a sceptic do.
type client struct{ base string }

// grant asks for a consent, checks that the message is the one its payload
// stands for, signs it and sends the signature back.
func (c *client) grant(ctx context.Context, r consent.Request, wallet *secp256k1.PrivateKey) (p consent.Payload, err error) {
	var challenge struct {
		ChallengeID string          `json:"challengeId"`
		Message     string          `json:"message"`
		Payload     consent.Payload `json:"payload"`
	}
	if err := c.post(ctx, "/v1/mystery/consents/challenge", r, &challenge); err != nil {
		return p, err
	}
	message, err := challenge.Payload.Message()
	if err != nil {
		return p, err
	}
	if message != challenge.Message {
		return p, fmt.Errorf("the message to sign does not say what the payload says")
	}
	grant := map[string]any{
		"challengeId": challenge.ChallengeID,
		"payload":     challenge.Payload,
		"signature":   eip191.Sign(message, wallet),
	}
	return challenge.Payload, c.post(ctx, "/v1/mystery/consents", grant, nil)
}

func (c *client) post(ctx context.Context, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.do(req, answer)
}

func (c *client) get(ctx context.Context, path string, query url.Values, answer any) error {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	return c.do(req, answer)
}

func (c *client) do(req *http.Request, answer any) error {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, res.Status, data)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}
