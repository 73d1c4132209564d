// Package producers sends events to the ledger as a registered producer.
//
//	c := producers.Client{URL: "https://karatum.com", Signer: producer.Signer{Producer: "shield-runner", Key: "2026-10", Private: key}, Now: time.Now}
//	opened, err := c.Sign(stream, shield.CaseOpened{…}, "sc_1/opened", at)
//	answer, err := c.Send(ctx, opened)
//
// Send may be repeated with the same events, by this process or a later one: each is on
// record once. It repeats by itself what has not been answered.
package producers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/karatum/mystery/api/httpsig"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
)

// A Client sends the events of one producer. Its methods may be called from several
// goroutines; events of one stream have to be sent one after the other, in order.
type Client struct {
	URL             string // of the service, such as https://karatum.com
	producer.Signer        // who sends

	Now func() time.Time // for signatures, which hold for a minute

	// Authority is what the service calls itself, if that is not the host of URL.
	Authority string

	HTTP  *http.Client  // nil: one that waits 30 seconds for an answer
	Tries int           // of a request; 0: 6
	Pause time.Duration // before the second try, and twice as long before each further one; 0: 200 ms
}

// An Answer says what became of the events of a request.
type Answer struct {
	Stream ledger.Stream `json:"stream"`
	Events []Taken       `json:"events"`
}

// Taken says what became of one event.
type Taken struct {
	ID      string `json:"id"`
	Version uint64 `json:"version"` // 0 for an event that is unchanged
	Status  string `json:"status"`  // recorded, known or unchanged
}

// A Refusal is an answer of the service that is no success. Type is the name of the
// problem, such as wrong-expected-version.
type Refusal struct { //nolint:errname // as the service calls it
	Status  int
	Type    string
	Detail  string
	Current uint64 // version of the stream, if Type is wrong-expected-version
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the ledger refuses with %d %s: %s", r.Status, r.Type, r.Detail)
}

const path = "/v1/ledger/events"

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

var patient = &http.Client{Timeout: 30 * time.Second}

// Send appends events, all of one stream and 100 at most, or returns an error: a
// [*Refusal] if the service answered with one.
func (c *Client) Send(ctx context.Context, events ...producer.CloudEvent) (a Answer, err error) {
	body, err := json.Marshal(events)
	if err != nil {
		return a, fmt.Errorf("send events: %w", err)
	}
	key := idempotency(c.Producer, events)
	tries, pause := c.Tries, c.Pause
	if tries == 0 {
		tries = 6
	}
	if pause == 0 {
		pause = 200 * time.Millisecond
	}
	for try := 1; ; try++ {
		var wait time.Duration
		a, wait, err = c.try(ctx, key, body)
		if err == nil || wait < 0 || try == tries || ctx.Err() != nil {
			return a, err
		}
		t := time.NewTimer(max(wait, pause))
		select {
		case <-ctx.Done():
			t.Stop()
			return a, errors.Join(err, ctx.Err())
		case <-t.C:
		}
		pause *= 2
	}
}

// idempotency returns the key of a request: it follows from who sends what, so that it
// is the same for whoever sends the same again.
func idempotency(name string, events []producer.CloudEvent) string {
	e := domain.NewEnc("karatum/producer/idempotency/v1").Str(name)
	for _, event := range events {
		e = e.Str(string(event.Stream)).Str(event.ID)
	}
	return domain.Sum(e).String()
}

// try sends a request once. wait is negative if there is no use in sending it again.
func (c *Client) try(ctx context.Context, key string, body []byte) (a Answer, wait time.Duration, err error) {
	const never = -1
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return a, never, fmt.Errorf("send events: %w", err)
	}
	r.Header.Set("Content-Type", "application/cloudevents-batch+json")
	r.Header.Set("Idempotency-Key", key)
	if err := c.sign(r, body); err != nil {
		return a, never, fmt.Errorf("send events: %w", err)
	}
	doer := c.HTTP
	if doer == nil {
		doer = patient
	}
	res, err := doer.Do(r)
	if err != nil {
		return a, 0, fmt.Errorf("send events: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return a, 0, fmt.Errorf("send events: %w", err)
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusCreated {
		if err := json.Unmarshal(text, &a); err != nil {
			return a, 0, fmt.Errorf("send events: the answer: %w", err)
		}
		return a, never, nil
	}
	refusal := refusalOf(res.StatusCode, text)
	switch {
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout, res.StatusCode >= http.StatusInternalServerError:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // else at once
		return a, time.Duration(seconds) * time.Second, refusal
	}
	return a, never, refusal
}

// sign signs a try, with a nonce of its own.
func (c *Client) sign(r *http.Request, body []byte) error {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails, see crypto/rand
	now := c.Now()
	authority := c.Authority
	if authority == "" {
		authority = httpsig.AuthorityOf(r.URL)
	}
	return httpsig.Producers.Sign(r, authority, body, httpsig.Params{
		Created: now, Expires: now.Add(httpsig.Producers.MaxAge), Nonce: hex.EncodeToString(nonce[:]), KeyID: c.Producer + "/" + c.Key,
	}, c.Private)
}

func refusalOf(status int, text []byte) *Refusal {
	var p struct {
		Type    string `json:"type"`
		Detail  string `json:"detail"`
		Current uint64 `json:"current"`
	}
	if json.Unmarshal(text, &p) != nil { // of a proxy, perhaps
		return &Refusal{Status: status, Type: "unknown", Detail: http.StatusText(status)}
	}
	return &Refusal{Status: status, Type: p.Type[strings.LastIndex(p.Type, "/")+1:], Detail: p.Detail, Current: p.Current}
}
