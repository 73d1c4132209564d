package x402

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

// How long an authorization holds, in seconds. It is valid from some time ago, as
// the clock of a chain may be behind ours, and to a moment that the seller names
// within bounds: for those seconds nobody can tell that it will not be taken.
const (
	backdated   = 600
	minValidity = 10 // facilitators want six seconds to be left when they look
	maxValidity = 300
)

// An Authorization is one transfer that whoever holds its signature may make, once
// (EIP-3009, TransferWithAuthorization). On the wire all of it is text.
type Authorization struct {
	From        eip191.Address `json:"from"`
	To          eip191.Address `json:"to"`
	Value       string         `json:"value"`
	ValidAfter  int64          `json:"validAfter,string"`  // Unix seconds, excluded
	ValidBefore int64          `json:"validBefore,string"` // Unix seconds, excluded
	Nonce       batch.Word     `json:"nonce"`
}

// Signed is an authorization with its signature: what a seller is given.
type Signed struct {
	Signature     eip191.Signature `json:"signature"`
	Authorization Authorization    `json:"authorization"`
}

// authorize returns the authorization to pay a price from an account, valid around a
// moment.
func (p Price) authorize(from eip191.Address, nonce batch.Word, now time.Time) Authorization {
	return Authorization{
		From: from, To: p.PayTo, Value: p.Amount, Nonce: nonce,
		ValidAfter: now.Unix() - backdated, ValidBefore: now.Add(p.Within).Unix(),
	}
}

// Digest returns what the payer signs for a transfer of an asset (EIP-712):
//
//	keccak256(0x1901 ‖ domain separator ‖ hash of the transfer)
//
// It returns a [domain.ErrInvalid] for numbers that are no uint256.
func (a Authorization) Digest(asset Asset) (domain.Hash, error) {
	value, ok := new(big.Int).SetString(a.Value, 10)
	if !ok || value.Sign() < 0 || value.BitLen() > 256 || a.ValidAfter < 0 || a.ValidBefore < 0 {
		return domain.Hash{}, fmt.Errorf("%q from %d to %d cannot be authorized: %w", a.Value, a.ValidAfter, a.ValidBefore, domain.ErrInvalid)
	}
	separator := keccak256(
		text("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
		text(asset.Name), text(asset.Version), number(new(big.Int).SetUint64(asset.Chain)), left(asset.Address[:]),
	)
	transfer := keccak256(
		text("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"),
		left(a.From[:]), left(a.To[:]), number(value), number(big.NewInt(a.ValidAfter)), number(big.NewInt(a.ValidBefore)), a.Nonce[:],
	)
	return keccak256([]byte{0x19, 0x01}, separator[:], transfer[:]), nil
}

// The words of 32 bytes that make up what is hashed: texts by their hash, all else
// filled from the left.
func text(s string) []byte {
	h := keccak256([]byte(s))
	return h[:]
}
func left(b []byte) []byte     { return append(make([]byte, 32-len(b)), b...) }
func number(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }

func keccak256(parts ...[]byte) (h domain.Hash) {
	k := sha3.NewLegacyKeccak256()
	_, _ = k.Write(slices.Concat(parts...)) // a hash takes everything
	k.Sum(h[:0])
	return h
}

// A Key is the private key of an account that pays.
type Key struct{ secret *secp256k1.PrivateKey }

// ParseKey reads a key: 64 hex digits, behind 0x or not. Its error, a
// [domain.ErrInvalid], holds nothing of the text.
func ParseKey(text string) (Key, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	var scalar secp256k1.ModNScalar
	if err != nil || len(raw) != 32 || scalar.SetByteSlice(raw) || scalar.IsZero() {
		return Key{}, fmt.Errorf("a key that pays is the private key of an Ethereum account, 64 hex digits: %w", domain.ErrInvalid)
	}
	return Key{secp256k1.NewPrivateKey(&scalar)}, nil
}

// Address returns the account of the key.
func (k Key) Address() eip191.Address { return eip191.AddressOf(k.secret.PubKey()) }

// String returns the account: a key must not get into a log by being printed.
func (k Key) String() string { return k.Address().String() }

// sign signs an authorization, with the nonce of RFC 6979.
func (k Key) sign(a Authorization, asset Asset) (Signed, error) {
	digest, err := a.Digest(asset)
	if err != nil {
		return Signed{}, err
	}
	s := Signed{Authorization: a}
	compact := ecdsa.SignCompact(k.secret, digest[:], false)
	copy(s.Signature[:64], compact[1:])
	s.Signature[64] = compact[0]
	return s, nil
}
