package attester_test

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/karatum/mystery/chain/attester"
)

func TestFeesFor(t *testing.T) {
	t.Parallel()
	tx := func(tip, most int64) *types.Transaction {
		return types.NewTx(&types.DynamicFeeTx{GasTipCap: big.NewInt(tip), GasFeeCap: big.NewInt(most)})
	}
	for _, tt := range []struct {
		name               string
		base, tip, ceiling int64
		before             []*types.Transaction
		wantTip, wantMost  int64
		ok                 bool
	}{
		{"room for a base fee that doubles", 100, 10, 1000, nil, 10, 210, true},
		{"as much room as the ceiling leaves", 100, 10, 150, nil, 10, 150, true},
		{"just the price", 100, 10, 110, nil, 10, 110, true},
		{"above the ceiling", 100, 10, 109, nil, 10, 210, false},
		{"an eighth more than before", 100, 10, 1000, []*types.Transaction{tx(80, 800)}, 91, 901, true},
		{"an eighth more than any before", 100, 10, 2000, []*types.Transaction{tx(80, 800), tx(160, 400)}, 181, 901, true},
		{"more than that already", 1000, 100, 5000, []*types.Transaction{tx(80, 800)}, 100, 2100, true},
		{"an eighth more is above the ceiling", 100, 10, 900, []*types.Transaction{tx(80, 800)}, 91, 901, false},
		{"an eighth more of very little", 0, 0, 10, []*types.Transaction{tx(0, 1)}, 1, 2, true},
		{"a tip that has grown above all", 1, 1, 1000, []*types.Transaction{tx(90, 90)}, 102, 102, true},
	} {
		tip, most, ok := attester.FeesFor(big.NewInt(tt.base), big.NewInt(tt.tip), tt.before, big.NewInt(tt.ceiling))
		if tip.Int64() != tt.wantTip || most.Int64() != tt.wantMost || ok != tt.ok {
			t.Errorf("%s: fees are %s, %s, %t, want %d, %d, %t", tt.name, tip, most, ok, tt.wantTip, tt.wantMost, tt.ok)
		}
	}
}
