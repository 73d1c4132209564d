package x402

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// A Buyer says whether a price is paid. If it is, the authorization that Buy returns
// is kept already, and is the only one that there will ever be. If it is not, the
// error is an [agents.Error]; one of another type says that it could not be decided.
type Buyer interface {
	Buy(ctx context.Context, p Price) (Signed, error)
}

// A Transport pays for what is asked over it. It is for one purchase, by one
// goroutine: a second 402 is passed on as it is.
type Transport struct {
	Base  http.RoundTripper // its answers hold their bodies decoded
	PayTo eip191.Address    // the only one that is paid
	Buyer Buyer

	paid        bool
	transaction batch.Word
}

// RoundTrip implements [http.RoundTripper]: a request that is answered by 402 is
// made once more with a payment. A request with a body needs GetBody for that.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.Base.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusPaymentRequired || t.paid {
		return res, err
	}
	again, err := t.pay(req, res)
	if err != nil {
		return nil, err
	}
	if res, err = t.Base.RoundTrip(again); err != nil {
		return nil, err
	}
	t.transaction = receipt(res.Header)
	return res, nil
}

// Paid reports whether an authorization may have left.
func (t *Transport) Paid() bool { return t.paid }

// Transaction returns the one that the seller says took the money; zero if it says
// nothing of the sort.
func (t *Transport) Transaction() batch.Word { return t.transaction }

// pay returns the request that carries a payment of the price in res.
func (t *Transport) pay(req *http.Request, res *http.Response) (*http.Request, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxOffer))
	_ = res.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read what %s costs: %w", req.URL.Redacted(), err)
	}
	list, err := prices(res.Header, body)
	if err != nil {
		return nil, err
	}
	price, err := cheapest(list, t.PayTo)
	if err != nil {
		return nil, err
	}
	again := req.Clone(req.Context())
	if req.Body != nil && req.Body != http.NoBody {
		if req.GetBody == nil {
			return nil, errors.New("a request whose body cannot be sent again cannot be paid for")
		}
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	signed, err := t.Buyer.Buy(req.Context(), price)
	if err != nil {
		return nil, err
	}
	t.paid = true
	name, value, err := price.header(signed)
	if err != nil {
		return nil, err
	}
	again.Header[name] = []string{value} // as it is spelled, not as net/http would
	return again, nil
}

// maxOffer bounds the document of a 402.
const maxOffer = 256 << 10

// receipt reads the transaction that a seller says took the money.
func receipt(h http.Header) (none batch.Word) {
	text := h.Get(headerReceipt2)
	if text == "" {
		text = h.Get(headerReceipt1)
	}
	document, err := unwrap(text)
	if err != nil {
		return none
	}
	var r struct {
		Success     bool       `json:"success"`
		Transaction batch.Word `json:"transaction"`
	}
	if json.NewDecoder(bytes.NewReader(document)).Decode(&r) != nil || !r.Success {
		return none
	}
	return r.Transaction
}
