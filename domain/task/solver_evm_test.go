package task_test

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"

	"golang.org/x/crypto/sha3"
)

func keccak(s string) string {
	h := sha3.NewLegacyKeccak256()
	h.Write([]byte(s))
	return hex.EncodeToString(h.Sum(nil))
}

func solveSelector(prompt string) (string, error) {
	signature := compiled(`[a-z]\w*\(\S*\)`).FindString(prompt)
	if signature == "" {
		return "", fmt.Errorf("no function in %q", prompt)
	}
	return "0x" + keccak(signature)[:8], nil
}

// solveChecksum raises each letter whose digit in the hash of the text is 8 or more.
func solveChecksum(prompt string) (string, error) {
	address := compiled(`0x([0-9a-f]{40})\b`).FindStringSubmatch(prompt)
	if address == nil {
		return "", fmt.Errorf("no address in %q", prompt)
	}
	digits := []byte(address[1])
	for i, c := range keccak(address[1])[:40] {
		if strings.ContainsRune("89abcdef", c) {
			digits[i] = strings.ToUpper(string(digits[i]))[0]
		}
	}
	return "0x" + string(digits), nil
}

func solveHex(prompt string) (string, error) {
	n := new(big.Int)
	for _, c := range strings.ToLower(compiled(`0x([0-9a-fA-F]+)`).FindStringSubmatch(prompt)[1]) {
		n.Mul(n, big.NewInt(16))
		n.Add(n, big.NewInt(int64(strings.IndexRune("0123456789abcdef", c))))
	}
	return n.String(), nil
}

// solveWei moves the point of the number as it is written.
func solveWei(prompt string) (string, error) {
	m := compiled(`(\d[\d,]*)(?:\.(\d+))? (wei|gwei|ETH|ether)\b`).FindStringSubmatch(prompt)
	if m == nil {
		return "", fmt.Errorf("no amount in %q", prompt)
	}
	places := 18
	if strings.Contains(prompt, "gwei") {
		places = 9
	}
	whole, fraction := strings.ReplaceAll(m[1], ",", ""), m[2]
	if m[3] != "wei" {
		return strings.TrimLeft(whole+fraction+strings.Repeat("0", places-len(fraction)), "0"), nil
	}
	whole = strings.Repeat("0", places) + whole
	cut := len(whole) - places
	whole, fraction = strings.TrimLeft(whole[:cut], "0"), strings.TrimRight(whole[cut:], "0")
	if whole == "" {
		whole = "0"
	}
	return strings.TrimSuffix(whole+"."+fraction, "."), nil
}
