package task

import (
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/karatum/mystery/domain/eip191"
)

var selectorTemplates = []Template{
	{
		ID: "evm.selector", Version: 1, Family: "selector",
		keywords: keywords{
			own: []string{
				"function selector", "method selector", "4 byte selector", "4 byte", "four byte selector", "abi selector", "selector calculator",
				"method id", "solidity selector",
			},
			broad:     evmBroad,
			described: []string{"function selector", "4 byte selector", "method selector", "four byte selector"},
			veto:      append([]string{"css", "lookup", "database", "decode", "decoder"}, evmVeto...),
		},
		parameters: []parameter{{roleSignature, "signature functionsignature functionsig sig function method abi text", true}},
		make:       makeSelector,
	},
	{
		ID: "evm.checksum", Version: 1, Family: "selector",
		keywords: keywords{
			own: []string{
				"eip 55", "checksum address", "address checksum", "to checksum", "to checksum address", "checksummed address",
			},
			broad:     evmBroad,
			described: []string{"eip 55", "checksum address", "address checksum", "checksummed address"},
			veto:      append([]string{"validate", "validator", "file"}, evmVeto...),
		},
		parameters: []parameter{{roleAddress, "address addr ethaddress account hex value input", true}},
		make:       makeChecksum,
	},
}

// selectorPhrasings ask for the selector of {f}.
var selectorPhrasings = []string{
	"What is the 4-byte function selector of {f}?",
	"Compute the Solidity function selector for {f}.",
	"Give me the four-byte selector of the function {f}.",
	"Which function selector does {f} have?",
	"I need the ABI selector of {f}.",
}

var selectorAlone = []string{
	"Reply with 0x and the eight hex digits only.",
	"Just the selector in hex with 0x in front, please.",
	"Only the selector, written as 0x and eight hex digits.",
	"Nothing but the selector, in hex with the 0x.",
}

// Parts of functions that only read, with the types of their arguments in
// canonical form.
var (
	readingVerbs  = []string{"get", "preview", "quote", "count", "find", "compute", "is", "read", "peek", "measure"}
	argumentTypes = []string{
		"uint256", "uint256", "address", "address", "bool", "bytes32", "string", "bytes", "uint8", "uint64", "uint128", "int256", "bytes4",
		"address[]", "uint256[]", "bytes32[]", "uint256[2]", "(address,uint256)", "(uint256,bool)", "(bytes32,address)[]",
	}
)

func makeSelector(d *draw) puzzle {
	f, selector := d.function()
	return puzzle{
		body:      fill(pick(d, selectorPhrasings), "f", f),
		details:   [][]string{selectorAlone},
		expected:  Expected{Kind: Hex, Value: "0x" + selector},
		arguments: func() map[Role]any { return map[Role]any{roleSignature: f} },
		poor:      selector == "",
	}
}

// function draws the signature of a function whose selector starts with a letter
// and holds a zero, so that nobody takes it for a number or loses the zero unseen.
// The selector is empty if a hundred were of another sort.
func (d *draw) function() (signature, selector string) {
	h, scratch := sha3.NewLegacyKeccak256(), make([]byte, 0, 128)
	for range 100 {
		types := make([]string, d.between(1, 4))
		for i := range types {
			types[i] = pick(d, argumentTypes)
		}
		verb, first, second := pick(d, readingVerbs), pick(d, textWords), pick(d, textWords)
		written := appendTitle(appendTitle(append(scratch[:0], verb...), first), second)
		for i, t := range types {
			written = append(append(written, "(,"[min(i, 1)]), t...)
		}
		written = append(written, ')')
		h.Reset()
		h.Write(written)
		sum := h.Sum(written)[len(written):]
		selector = hex.EncodeToString(sum[:4])
		if selector[0] >= 'a' && strings.Contains(selector, "0") {
			return string(written), selector
		}
	}
	return "", ""
}

// title writes a lower-case English word with a capital.
func title(word string) string { return string(appendTitle(nil, word)) }

func appendTitle(b []byte, word string) []byte {
	return append(append(b, word[0]&^0x20), word[1:]...)
}

// checksumPhrasings ask for the EIP-55 form of {a}.
var checksumPhrasings = []string{
	"What is the EIP-55 checksum form of {a}?",
	"Write the address {a} with its EIP-55 checksum.",
	"Convert {a} to a checksummed address (EIP-55).",
	"Apply the EIP-55 mixed-case checksum to {a}.",
	"Give me {a} in the mixed case of EIP-55.",
}

var checksumAlone = []string{
	"Just the address, please.",
	"Reply with the address only.",
	"Only the checksummed address is needed.",
	"Nothing but the address in its mixed case.",
}

func makeChecksum(d *draw) puzzle {
	var a eip191.Address
	for i := range a {
		a[i] = byte(d.below(256)) //nolint:gosec // a byte
	}
	plain, mixed := "0x"+hex.EncodeToString(a[:]), a.String()
	return puzzle{
		body:      fill(pick(d, checksumPhrasings), "a", plain),
		details:   [][]string{checksumAlone},
		expected:  Expected{Kind: Checksum, Value: mixed},
		arguments: func() map[Role]any { return map[Role]any{roleAddress: plain} },
		poor:      mixed == plain || mixed[2:] == strings.ToUpper(plain[2:]), // one case says nothing
	}
}
