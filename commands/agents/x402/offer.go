package x402

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// The headers of the protocol, spelled as its clients write them.
const (
	headerOffer    = "PAYMENT-REQUIRED"   // version 2
	headerPayment1 = "X-PAYMENT"          // version 1
	headerPayment2 = "PAYMENT-SIGNATURE"  // version 2
	headerReceipt1 = "X-PAYMENT-RESPONSE" // version 1
	headerReceipt2 = "PAYMENT-RESPONSE"   // version 2
)

// Bounds on what is read of a seller.
const (
	maxOffers = 32
	maxHeader = 32 << 10 // before it is decoded
)

// A Price is what one of a seller's offers asks, and can be paid.
type Price struct {
	Asset  Asset
	PayTo  eip191.Address
	Amount string        // in atomic units
	Within time.Duration // for which an authorization has to hold

	version  int
	network  string          // as the seller spells it
	resource json.RawMessage // version 2: what is bought, in the seller's words
	accepted json.RawMessage // version 2: the offer, in the seller's words
}

// An envelope is the document of a 402, of either version.
type envelope struct {
	Version  int               `json:"x402Version"`
	Resource json.RawMessage   `json:"resource"`
	Accepts  []json.RawMessage `json:"accepts"`
}

// An offer is an element of accepts, of either version. Amounts are strings in all
// implementations; what is none is not guessed at.
type offer struct {
	Scheme            string `json:"scheme"`
	Network           string `json:"network"`
	MaxAmountRequired string `json:"maxAmountRequired"` // version 1
	Amount            string `json:"amount"`            // version 2
	Asset             string `json:"asset"`
	PayTo             string `json:"payTo"`
	MaxTimeoutSeconds int64  `json:"maxTimeoutSeconds"`
	Extra             struct {
		Name                string `json:"name"`
		Version             string `json:"version"`
		AssetTransferMethod string `json:"assetTransferMethod"`
	} `json:"extra"`
}

// prices reads the offers of a 402 that can be paid, the cheapest first, or returns
// an [agents.Error] that says why there are none. Version 2 puts them in a header
// and version 1 in the body.
func prices(h http.Header, body []byte) ([]Price, error) {
	if text := h.Get(headerOffer); text != "" {
		document, err := unwrap(text)
		if err != nil {
			return nil, &agents.Error{
				Outcome: task.Error, Code: agents.Protocol, Status: http.StatusPaymentRequired, Raw: body, Reason: headerOffer + " is not in base64",
			}
		}
		body = document
	}
	var e envelope
	if json.Unmarshal(body, &e) != nil || e.Version == 0 {
		return nil, refuse("the agent wants to be paid (HTTP 402), and does not say how by x402")
	}
	if e.Version != 1 && e.Version != 2 {
		return nil, refuse("the agent wants to be paid by version %d of x402, which is not spoken here", e.Version)
	}
	var list []Price
	why := error(refuse("the agent wants to be paid, and makes no offer"))
	for i, raw := range e.Accepts[:min(len(e.Accepts), maxOffers)] {
		p, err := read(e, raw)
		switch {
		case err == nil:
			list = append(list, p)
		case i == 0:
			why = err
		}
	}
	if len(list) == 0 {
		return nil, why
	}
	return list, nil
}

// cheapest returns the cheapest of some prices that a payee takes.
func cheapest(list []Price, payTo eip191.Address) (best Price, err error) {
	var least *big.Int
	for _, p := range list {
		if p.PayTo != payTo {
			continue
		}
		if amount, ok := shop.Amount(p.Amount); ok && (least == nil || amount.Cmp(least) < 0) {
			best, least = p, amount
		}
	}
	if least == nil {
		return Price{}, refuse("the agent wants the money to go to %s, and it showed %s as the payee when it was looked at", list[0].PayTo, payTo)
	}
	return best, nil
}

// read returns the price of an offer if it is one that can be paid.
func read(e envelope, raw json.RawMessage) (Price, error) {
	var o offer
	if err := json.Unmarshal(raw, &o); err != nil {
		return Price{}, refuse("an offer of the agent cannot be read")
	}
	amount, label := o.Amount, func(a Asset) string { return a.Network }
	if e.Version == 1 {
		amount, label = o.MaxAmountRequired, func(a Asset) string { return a.Label }
	}
	asset, ok := assetOf(o.Network)
	if !ok || o.Network != label(asset) {
		return Price{}, refuse("the agent wants to be paid on %.64q, where nothing is paid", o.Network)
	}
	token, err := address(o.Asset)
	payTo, errTo := address(o.PayTo)
	n, isAmount := shop.Amount(amount)
	switch {
	case o.Scheme != "exact":
		return Price{}, refuse("the agent wants to be paid by the scheme %.64q, and only \"exact\" is used", o.Scheme)
	case o.Extra.AssetTransferMethod != "" && o.Extra.AssetTransferMethod != "eip3009":
		return Price{}, refuse("the agent wants to be paid by %.64q, and only eip3009 is used", o.Extra.AssetTransferMethod)
	case err != nil || token != asset.Address:
		return Price{}, refuse("the agent wants to be paid in %.64q, and only %s is paid with on %s", o.Asset, asset.Address, asset.Network)
	case o.Extra.Name != asset.Name || o.Extra.Version != asset.Version:
		return Price{}, refuse("the agent wants a signature under %.64q version %.64q, which is not how %s signs", o.Extra.Name, o.Extra.Version, asset.Address)
	case errTo != nil || payTo.IsZero():
		return Price{}, refuse("the agent wants the money to go to %.64q, which is no address", o.PayTo)
	case !isAmount || n.Sign() == 0:
		return Price{}, refuse("the agent wants %.64q, which is no amount", amount)
	case o.MaxTimeoutSeconds < minValidity:
		return Price{}, refuse("the agent gives a payment %d seconds, which is too short to be sure of", o.MaxTimeoutSeconds)
	}
	return Price{
		Asset: asset, PayTo: payTo, Amount: amount, Within: time.Duration(min(o.MaxTimeoutSeconds, maxValidity)) * time.Second,
		version: e.Version, network: o.Network, resource: e.Resource, accepted: raw,
	}, nil
}

// address reads an address in any case: sellers do not all keep the checksum.
func address(text string) (eip191.Address, error) {
	return eip191.ParseAddress(strings.ToLower(text))
}

// sale returns what of a price does not change from one buyer to the next.
func (p Price) sale() task.Sale {
	return task.Sale{Network: p.Asset.Network, Asset: p.Asset.Address.String(), PayTo: p.PayTo.String()}
}

// header returns the header that carries a payment, by the version of the offer.
func (p Price) header(s Signed) (name, value string, err error) {
	name = headerPayment1
	document := any(struct {
		Version int    `json:"x402Version"`
		Scheme  string `json:"scheme"`
		Network string `json:"network"`
		Payload Signed `json:"payload"`
	}{1, "exact", p.network, s})
	if p.version == 2 {
		name = headerPayment2
		document = struct {
			Version  int             `json:"x402Version"`
			Resource json.RawMessage `json:"resource,omitempty"`
			Accepted json.RawMessage `json:"accepted"`
			Payload  Signed          `json:"payload"`
		}{2, p.resource, p.accepted, s}
	}
	b, err := json.Marshal(document)
	if err != nil {
		return "", "", fmt.Errorf("write %s: %w", name, err)
	}
	return name, base64.StdEncoding.EncodeToString(b), nil
}

// unwrap reads a header of the protocol: JSON in base64.
func unwrap(text string) ([]byte, error) {
	if len(text) > maxHeader {
		return nil, fmt.Errorf("a header of %d bytes is too long", len(text))
	}
	return base64.StdEncoding.DecodeString(strings.TrimSpace(text))
}
