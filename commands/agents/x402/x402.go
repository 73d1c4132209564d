// Package x402 buys what is sold over HTTP by the x402 protocol, versions 1 and 2:
// a server answers 402 with what it takes, the same request goes out once more with
// a signed authorization to take it, and the server has somebody redeem that on
// its chain.
//
// [Transport] is an [http.RoundTripper] that does so for one purchase, whatever is
// asked over it. What may be paid at all is a list in this file: a token on a
// network, with the names it signs under, by the scheme "exact" and an
// authorization of EIP-3009. Whether it is paid is for a [Buyer] to say; [Purse] is
// the one that counts, keeps and records before it signs away anything. [Client]
// asks agents whose endpoint is such a resource.
//
// The invariant is that a purchase has one authorization, with one nonce, which is
// kept before it leaves, and never a second one: whoever pays again after an answer
// was lost may have paid twice. A server that asks for money after it was given an
// authorization has therefore not said whether it took it; the chain says, see
// [Purse.Fate].
//
// The package pays. It sells nothing, redeems nothing and holds no gas.
package x402

import (
	"fmt"
	"slices"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/task"
)

// An Asset is a token that can be paid with.
type Asset struct {
	Network string // CAIP-2, as version 2 writes it
	Label   string // as version 1 writes it
	Chain   uint64
	Address eip191.Address

	// Name and Version are those that the token signs under (EIP-712). An offer with
	// others would make a signature that the token does not take, or another one does.
	Name, Version string
}

// USDC is the one that is paid with: that of Base Sepolia.
var USDC = Asset{
	Network: consent.PaymentNetwork, Label: "base-sepolia", Chain: 84532,
	Address: eip191.Address{0x03, 0x6c, 0xbd, 0x53, 0x84, 0x2c, 0x54, 0x26, 0x63, 0x4e, 0x79, 0x29, 0x54, 0x1e, 0xc2, 0x31, 0x8f, 0x3d, 0xcf, 0x7e},
	Name:    "USDC", Version: "2",
}

// assets are all that can be paid with.
var assets = []Asset{USDC}

// assetOf returns the asset of a network, in the spelling of either version.
func assetOf(network string) (Asset, bool) {
	i := slices.IndexFunc(assets, func(a Asset) bool { return a.Network == network || a.Label == network })
	if i < 0 {
		return Asset{}, false
	}
	return assets[i], true
}

// refuse returns the error of what is not paid. It says nothing about the agent.
func refuse(format string, args ...any) *agents.Error {
	return &agents.Error{Outcome: task.Blocked, Code: agents.PaymentCap, Reason: fmt.Sprintf(format, args...)}
}
