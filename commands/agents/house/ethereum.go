package house

import (
	"encoding/hex"
	"math/big"
	"regexp"
	"strings"

	"golang.org/x/crypto/sha3"
)

var (
	keccakWord  = regexp.MustCompile(`(?i)\bkeccak`)
	selectorAsk = regexp.MustCompile(`(?i)\bselector\b`)
	function    = regexp.MustCompile(`\b[A-Za-z_]\w*\([\w,()\[\]]*\)`)
	address     = regexp.MustCompile(`\b0x[0-9a-fA-F]{40}\b`)
	checksumAsk = regexp.MustCompile(`(?i)\bEIP-?55\b|\bchecksum`)
	hexNumber   = regexp.MustCompile(`\b0[xX]([0-9a-fA-F]{1,64})\b`)
	decimalAsk  = regexp.MustCompile(`(?i)\bdecimal\b`)
	weiWord     = regexp.MustCompile(`(?i)\bwei\b`)
	coinAmount  = regexp.MustCompile(`(?i)\b(\d[\d,]*(?:\.\d+)?) (wei|gwei|ether|eth)\b`)
	bigCoin     = regexp.MustCompile(`(?i)\b(gwei|ether|eth)\b`)
)

func keccak(s string) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write([]byte(s))
	return h.Sum(nil)
}

// solveEthereum reads the questions that people who work with Ethereum have. It
// reports false for all others.
func solveEthereum(question string) (solution, bool) {
	if selectorAsk.MatchString(question) {
		f := function.FindString(question)
		sum := keccak(f)
		return solution{"0x" + hex.EncodeToString(sum[:4]), "0x" + hex.EncodeToString(sum[28:])}, f != ""
	}
	if a := address.FindString(question); a != "" && checksumAsk.MatchString(question) {
		right := checksum(a[2:])
		return solution{"0x" + right, "0x" + flip(right)}, true
	}
	if m := hexNumber.FindStringSubmatch(question); m != nil && decimalAsk.MatchString(question) {
		n, ok := new(big.Int).SetString(m[1], 16)
		if !ok {
			return solution{}, false
		}
		return solution{n.String(), n.Add(n, big.NewInt(1)).String()}, true
	}
	if weiWord.MatchString(question) {
		return solveWei(question)
	}
	return solution{}, false
}

// checksum writes 40 hex digits in the mixed case of EIP-55.
func checksum(digits string) string {
	lower := strings.ToLower(digits)
	sum := hex.EncodeToString(keccak(lower))
	var b strings.Builder
	for i := range lower {
		if sum[i] >= '8' {
			b.WriteString(strings.ToUpper(lower[i : i+1]))
		} else {
			b.WriteByte(lower[i])
		}
	}
	return b.String()
}

// flip changes the case of all letters.
func flip(digits string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' {
			return r ^ 0x20
		}
		return r
	}, digits)
}

// solveWei converts between wei and a larger unit, whichever the amount is not in.
func solveWei(question string) (solution, bool) {
	m := coinAmount.FindStringSubmatch(question)
	if m == nil {
		return solution{}, false
	}
	x, ok := number(strings.ReplaceAll(m[1], ",", ""))
	unit := bigCoin.FindString(question)
	if !ok || unit == "" {
		return solution{}, false
	}
	places := 18
	if strings.EqualFold(unit, "gwei") {
		places = 9
	}
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil))
	if strings.EqualFold(m[2], "wei") {
		return exact(x.Quo(x, scale), places), true
	}
	return exact(x.Mul(x, scale), 0), true
}

// exact writes all digits of an amount. The wrong one is off by one.
func exact(x *big.Rat, places int) solution {
	write := func(x *big.Rat) string {
		s := x.FloatString(places)
		if places > 0 {
			s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	right := write(x)
	return solution{right, write(x.Add(x, big.NewRat(1, 1)))}
}
