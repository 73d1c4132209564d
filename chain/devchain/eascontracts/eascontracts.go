// Package eascontracts puts the Ethereum Attestation Service on a development
// chain: the contracts of the npm package
// @ethereum-attestation-service/eas-contracts 1.9.0, as it comes compiled, under the
// licence in artifacts/LICENSE. On public networks they are deployed already, so
// nothing but karatum-demo and tests needs their code.
package eascontracts

import (
	"context"
	"crypto/ecdsa"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/karatum/mystery/chain/contracts"
	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/eas"
)

// A Chain mines the transactions that it is given.
type Chain interface {
	Transact(ctx context.Context, key *ecdsa.PrivateKey, tx devchain.Tx) (*types.Receipt, error)
}

// Deploy has key deploy the schema registry and EAS.
func Deploy(ctx context.Context, c Chain, key *ecdsa.PrivateKey) (d eas.Deployment, err error) {
	registry, err := c.Transact(ctx, key, devchain.Tx{Data: load("SchemaRegistry").Deploy()})
	if err != nil {
		return d, fmt.Errorf("deploy the schema registry: %w", err)
	}
	service, err := c.Transact(ctx, key, devchain.Tx{Data: load("EAS").Deploy(registry.ContractAddress)})
	if err != nil {
		return d, fmt.Errorf("deploy EAS: %w", err)
	}
	return eas.Deployment{EAS: service.ContractAddress, Registry: registry.ContractAddress}, nil
}

//go:embed artifacts/*.json
var artifacts embed.FS

func load(name string) contracts.Contract {
	text, err := artifacts.ReadFile("artifacts/" + name + ".json")
	if err != nil {
		panic(err)
	}
	var artifact struct {
		ABI      abi.ABI       `json:"abi"`
		Bytecode hexutil.Bytes `json:"bytecode"`
	}
	if err := json.Unmarshal(text, &artifact); err != nil {
		panic(fmt.Sprintf("eascontracts: artifact %s: %v", name, err))
	}
	return contracts.Contract{ABI: artifact.ABI, Bytecode: artifact.Bytecode}
}
