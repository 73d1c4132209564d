package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"

	"golang.org/x/crypto/sha3"
)

var hashTemplates = []Template{
	{
		ID: "hash.sha256", Version: 1, Family: "hash",
		keywords: keywords{
			own:       []string{"sha 256", "sha 2", "sha"},
			broad:     []string{"hash", "hashes", "hashing", "digest", "checksum", "cryptographic hash"},
			described: []string{"sha 256", "cryptographic hash", "compute hash", "computes hash", "hash of", "hash text"},
			veto:      []string{"password", "bcrypt", "hash rate", "hashrate", "mining", "verify", "transaction hash", "block hash", "image"},
			rivals:    []string{"sha 512", "sha 1", "sha 3", "keccak", "address checksum", "checksum address", "eip 55", "ethereum", "evm"},
		},
		parameters: []parameter{
			{roleData, dataNames, true},
			{roleAlgorithm, "algorithm algo hash hashtype type method", false},
		},
		make: makeSHA256,
	},
	{
		ID: "hash.keccak256", Version: 1, Family: "hash",
		keywords: keywords{
			own:       []string{"keccak 256", "keccak"},
			broad:     slices.Concat([]string{"hash", "hashes", "hashing", "digest", "cryptographic hash"}, evmBroad),
			described: []string{"keccak 256", "keccak"},
			rivals:    []string{"sha", "sha 2", "sha 256", "sha 512", "sha 1", "sha 3", "md 5", "blake 2", "blake 3", "ripemd 160"},
			veto:      slices.Concat([]string{"password", "bcrypt", "hash rate", "hashrate", "mining", "verify", "block hash", "image"}, evmVeto),
		},
		parameters: []parameter{
			{roleData, dataNames, true},
			{roleAlgorithm, "algorithm algo hash hashtype type method", false},
		},
		make: makeKeccak,
	},
	{
		ID: "hash.base64", Version: 1, Family: "hash",
		keywords: keywords{
			own:       []string{"base 64"},
			broad:     []string{"encoding", "encode", "encoder", "encodings", "text encoding"},
			described: []string{"base 64"},
			veto:      []string{"decode", "decoder", "url encode", "url encoding", "video", "image", "audio", "geo", "geocode", "qr", "abi", "morse", "base 64 url", "base 58"},
		},
		parameters: []parameter{
			{roleData, dataNames, true},
			{roleAlgorithm, "operation mode action encoding type method", false},
		},
		make: makeBase64,
	},
}

const dataNames = "text data input string value message content payload plaintext"

// textWords make up the strings to be hashed. Any will do.
var textWords = []string{
	"lantern", "harbor", "orchid", "copper", "meadow", "saffron", "granite", "willow", "falcon", "amber", "velvet", "timber",
	"juniper", "marble", "canyon", "breeze", "cobalt", "ember", "fjord", "glacier", "hazel", "indigo", "jasmine", "kelp",
	"linen", "mosaic", "nectar", "opal", "pebble", "quartz", "raven", "sierra", "thistle", "umber", "violet", "walnut",
	"yarrow", "zephyr", "anchor", "bramble", "cedar", "dune", "elm", "fern",
}

// digestPhrasings ask for the SHA-256 of "{s}".
var digestPhrasings = []string{
	`What is the SHA-256 hash of the text "{s}"?`,
	`Compute the SHA-256 digest of "{s}".`,
	`Hash the string "{s}" with SHA-256.`,
	`I need the SHA-256 of this text: "{s}".`,
	`Please run SHA-256 over "{s}".`,
}

// exactBytes says which bytes are meant.
var exactBytes = []string{
	"Take the text between the quotes as UTF-8, without a newline at the end.",
	"Use the UTF-8 bytes between the quotes, no trailing newline.",
	"The quotes are not part of it, and there is no newline at the end (UTF-8).",
	"UTF-8, without the quotes and without a trailing newline.",
}

var digestAlone = []string{
	"Reply with the hex digest only.",
	"Just the hexadecimal digest, please.",
	"Only the hex digits are needed.",
	"Give me the digest in hex and nothing else.",
}

func makeSHA256(d *draw) puzzle {
	s := d.phrase()
	sum := sha256.Sum256([]byte(s))
	return puzzle{
		body:     fill(pick(d, digestPhrasings), "s", s),
		details:  [][]string{exactBytes, digestAlone},
		expected: Expected{Kind: Hex, Value: hex.EncodeToString(sum[:])},
		arguments: func() map[Role]any {
			return map[Role]any{roleData: s, roleAlgorithm: []string{"sha256", "sha-256", "sha2-256"}}
		},
	}
}

// keccakPhrasings ask for the Keccak-256 of "{s}".
var keccakPhrasings = []string{
	`What is the Keccak-256 hash of the text "{s}"?`,
	`Compute keccak256 of the string "{s}".`,
	`Hash the text "{s}" with Keccak-256.`,
	`I need the keccak256 digest of this text: "{s}".`,
	`Please run Keccak-256 over the text "{s}".`,
}

// keccakAlone tells the function from the one that NIST made of it.
var keccakAlone = []string{
	"The original Keccak as Ethereum uses it is meant, not SHA3-256; just the hex digest, please.",
	"Use the Keccak of Ethereum rather than standard SHA-3, and reply with the hex digest only.",
	"I mean Ethereum's Keccak, not the NIST variant of SHA-3. Only the hex digest is needed.",
	"Not SHA3-256, but Keccak as in Ethereum. Give me the digest in hex and nothing else.",
}

func makeKeccak(d *draw) puzzle {
	s := d.phrase()
	return puzzle{
		body:     fill(pick(d, keccakPhrasings), "s", s),
		details:  [][]string{exactBytes, keccakAlone},
		expected: Expected{Kind: Hex, Value: hex.EncodeToString(keccak256([]byte(s)))},
		arguments: func() map[Role]any {
			return map[Role]any{roleData: s, roleAlgorithm: []string{"keccak256", "keccak-256", "keccak"}}
		},
	}
}

// keccak256 is the hash function of Ethereum: Keccak as submitted, before FIPS 202
// changed its padding.
func keccak256(data []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(data)
	return h.Sum(nil)
}

// base64Phrasings ask for the Base64 of "{s}".
var base64Phrasings = []string{
	`What is "{s}" in Base64?`,
	`Encode the text "{s}" as Base64.`,
	`Please Base64-encode "{s}".`,
	`Give me the Base64 encoding of "{s}".`,
	`I need this text in Base64: "{s}".`,
}

var base64Alone = []string{
	"Standard alphabet with padding; just the encoded text, please.",
	"Use the standard alphabet with padding and reply with the encoded text only.",
	"Only the encoded text, in the standard alphabet and padded.",
	"Standard Base64 (with padding), nothing but the result.",
}

func makeBase64(d *draw) puzzle {
	s, encoded, poor := d.encodable()
	return puzzle{
		body:     fill(pick(d, base64Phrasings), "s", s),
		details:  [][]string{exactBytes, base64Alone},
		expected: Expected{Kind: Base64, Value: encoded},
		arguments: func() map[Role]any {
			return map[Role]any{roleData: s, roleAlgorithm: []string{"encode", "base64", "to_base64"}}
		},
		poor: poor,
	}
}

// encodable draws a text whose Base64 holds all of + / = or none of them: then
// every usual variant differs from the standard one, or none does. It reports
// true if a hundred texts were of neither sort.
func (d *draw) encodable() (s, encoded string, poor bool) {
	want := 3 * d.below(2)
	text, code := make([]byte, 0, 96), make([]byte, 0, 128)
	for range 100 {
		text = d.appendPhrase(text[:0])
		if want > 0 {
			head, sign, tail := pick(d, textWords), pick(d, []string{"~", ">"}), pick(d, textWords)
			text = slices.Insert(text, 0, []byte(head+sign)...)
			text = append(append(text, '?'), tail...)
		}
		code = base64.StdEncoding.AppendEncode(code[:0], text)
		signs := 0
		for _, c := range []byte("+/=") {
			if bytes.IndexByte(code, c) >= 0 {
				signs++
			}
		}
		if signs == want {
			return string(text), string(code), false
		}
	}
	return "", "", true
}

// phrase draws an ASCII text that starts with a letter and ends with a letter or a digit.
func (d *draw) phrase() string { return string(d.appendPhrase(make([]byte, 0, 64))) }

// appendPhrase appends a phrase. What parts its words is drawn last.
func (d *draw) appendPhrase(b []byte) []byte {
	words := make([]string, 0, 4)
	for range d.between(2, 4) {
		words = append(words, pick(d, textWords))
	}
	number := 0
	if d.chance(2) {
		number = d.between(10, 9999)
	}
	sign := pick(d, []string{"-", " ", "_", "."})
	for i, w := range words {
		if i > 0 {
			b = append(b, sign...)
		}
		b = append(b, w...)
	}
	if number > 0 {
		b = strconv.AppendInt(append(b, sign...), int64(number), 10)
	}
	return b
}
