// Package contracts holds the Solidity contracts of this project, compiled.
//
// Their sources stand beside this file and what the compiler made of them in
// artifacts. `make contracts` compiles them again, to the same bytes, with the
// compiler that package-lock.json pins; nothing else here needs it.
//
// [BatchResolver] is for the chain that batches are attested on.
// [Wallet], [Delegate], [WalletFactory], [IdentityRegistry] and [PaymentToken] are for
// tests: they do what wallets, registries and tokens do on public chains, and have no
// other merits.
package contracts

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// A Contract is what a compiler makes of a contract.
type Contract struct {
	ABI      abi.ABI
	Bytecode []byte // creation code, without the arguments of the constructor
}

// BatchResolver is the resolver of an EAS schema that takes batches one after the
// other from one attester. It is constructed with EAS, the attester, and number
// and root of the batch behind which it goes on.
func BatchResolver() Contract { return load("BatchResolver") }

// Wallet is an ERC-1271 wallet with one owner.
func Wallet() Contract { return load("Wallet") }

// Delegate is what an EIP-7702 account may delegate to.
func Delegate() Contract { return load("Delegate") }

// WalletFactory puts wallets at addresses that are known before.
func WalletFactory() Contract { return load("WalletFactory") }

// IdentityRegistry is a small ERC-8004 identity registry.
func IdentityRegistry() Contract { return load("IdentityRegistry") }

// PaymentToken is a token that is paid with by signed authorizations (EIP-3009), and
// signs as USDC on Base Sepolia does.
func PaymentToken() Contract { return load("PaymentToken") }

// Deploy returns the data of a transaction that deploys c. It panics if args are
// not those of the constructor, as that is a bug in the program.
func (c Contract) Deploy(args ...any) []byte {
	return append(bytes.Clone(c.Bytecode), c.Call("", args...)...)
}

// Call returns the data of a call of method. It panics if there is no such method,
// or if it takes other arguments.
func (c Contract) Call(method string, args ...any) []byte {
	data, err := c.ABI.Pack(method, args...)
	if err != nil {
		panic(fmt.Sprintf("contracts: %v", err))
	}
	return data
}

//go:embed artifacts/*.json
var artifacts embed.FS

func load(name string) Contract {
	text, err := artifacts.ReadFile("artifacts/" + name + ".json")
	if err != nil {
		panic(err)
	}
	var artifact struct {
		ABI      abi.ABI       `json:"abi"`
		Bytecode hexutil.Bytes `json:"bytecode"`
	}
	if err := json.Unmarshal(text, &artifact); err != nil {
		panic(fmt.Sprintf("contracts: artifact %s: %v", name, err))
	}
	return Contract{artifact.ABI, artifact.Bytecode}
}
