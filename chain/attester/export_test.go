package attester

import (
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"
)

// FeesFor is feesFor, with a pair for the fees.
func FeesFor(base, tip *big.Int, before []*types.Transaction, ceiling *big.Int) (gotTip, most *big.Int, ok bool) {
	f, ok := feesFor(base, tip, before, ceiling)
	return f.tip, f.most, ok
}
