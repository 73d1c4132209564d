package attester

import (
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"
)

// Fees are the two of EIP-1559, in wei for a unit of gas.
type fees struct {
	tip  *big.Int // for whoever makes the block
	most *big.Int // with the base fee
}

// feesFor returns what to pay when the next block costs base and tip is usual on top,
// so that the base fee may double before the transaction is mined. Where before has
// transactions with the same nonce, nodes take another one only if it pays a tenth more
// of both fees than each of them; an eighth more it is. Above the ceiling it reports
// false, and nothing must be sent.
func feesFor(base, tip *big.Int, before []*types.Transaction, ceiling *big.Int) (fees, bool) {
	f := fees{tip: new(big.Int).Set(tip), most: new(big.Int).Add(new(big.Int).Lsh(base, 1), tip)}
	if f.most.Cmp(ceiling) > 0 && new(big.Int).Add(base, tip).Cmp(ceiling) <= 0 {
		f.most.Set(ceiling)
	}
	for _, t := range before {
		raise(f.tip, t.GasTipCap())
		raise(f.most, t.GasFeeCap())
	}
	if f.most.Cmp(f.tip) < 0 { // the tips alone have come so far
		f.most.Set(f.tip)
	}
	return f, f.most.Cmp(ceiling) <= 0
}

// raise lifts fee to an eighth above was, if it is less.
func raise(fee, was *big.Int) {
	more := new(big.Int).Add(was, new(big.Int).Rsh(was, 3))
	more.Add(more, big.NewInt(1))
	if fee.Cmp(more) < 0 {
		fee.Set(more)
	}
}
