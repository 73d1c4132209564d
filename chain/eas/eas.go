// Package eas speaks the language of the Ethereum Attestation Service, in which the
// roots of batches stand on a chain: the schema, what an attestation of a batch
// says, byte for byte, and how to read one back and find fault with it.
//
// An attestation is worth what it can be checked against. EAS takes any bytes under
// any schema from anybody, and other contracts may emit events that look like
// those of EAS. So [Attestation.Check] asks for the schema, the attester, the exact
// length and the UID, which follows from all the rest, and [UIDs] takes logs of
// the one EAS contract alone.
//
// The package reads through functions that it is given, and does not send: the
// verifier imports it.
package eas

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
)

// Schema is the text of the schema. Its UID depends on every character of it.
const Schema = "bytes32 commitRoot,uint64 batch,uint32 leafCount,bytes32 previousRoot,uint64 logSize,bytes32 logRoot"

// Length is how many bytes an attestation of a batch holds: a word for each field.
const Length = 6 * 32

// SchemaUID returns the UID that the registry gives to the schema, irrevocable and
// with the given resolver, which is the zero address if there is none:
//
//	keccak256(abi.encodePacked(string schema, address resolver, bool revocable))
func SchemaUID(resolver common.Address) common.Hash {
	return crypto.Keccak256Hash([]byte(Schema), resolver[:], []byte{0})
}

// A Statement is what an attestation says of a batch, in the order of the schema.
type Statement struct {
	Root         domain.Hash
	Batch        uint64
	Count        uint32
	PreviousRoot domain.Hash
	LogSize      uint64
	LogRoot      domain.Hash
}

// StatementOf returns what the attestation of a batch says.
func StatementOf(s batch.Sealed) Statement {
	return Statement{s.Root, s.Batch, s.Count, s.PreviousRoot, s.LogSize, s.LogRoot}
}

var fields = arguments("bytes32", "uint64", "uint32", "bytes32", "uint64", "bytes32")

func arguments(types ...string) (list abi.Arguments) {
	for _, name := range types {
		t, err := abi.NewType(name, "", nil)
		if err != nil {
			panic(err)
		}
		list = append(list, abi.Argument{Type: t})
	}
	return list
}

// Encode returns s as the data of an attestation, [Length] bytes.
func (s Statement) Encode() []byte {
	data, err := fields.Pack(s.Root, s.Batch, s.Count, s.PreviousRoot, s.LogSize, s.LogRoot)
	if err != nil {
		panic(err) // these types can be encoded
	}
	return data
}

// Decode reads the data of an attestation. EAS does not look at it: anything that
// is not of [Length] bytes, or does not fit into the fields, is a
// [domain.ErrInvalid].
func Decode(data []byte) (Statement, error) {
	if len(data) != Length {
		return Statement{}, fmt.Errorf("an attestation of a batch has %d bytes of data, not %d: %w", Length, len(data), domain.ErrInvalid)
	}
	word := func(i int) (w [32]byte) { return [32]byte(data[32*i:]) }
	number := func(i, bytes int) (uint64, error) {
		w := word(i)
		for _, b := range w[:32-bytes] {
			if b != 0 {
				return 0, fmt.Errorf("a number in the attestation of a batch is larger than its field: %w", domain.ErrInvalid)
			}
		}
		return binary.BigEndian.Uint64(w[24:]), nil
	}
	n, err := number(1, 8)
	if err != nil {
		return Statement{}, err
	}
	count, err := number(2, 4)
	if err != nil {
		return Statement{}, err
	}
	size, err := number(4, 8)
	if err != nil {
		return Statement{}, err
	}
	return Statement{word(0), n, uint32(count), word(3), size, word(5)}, nil //nolint:gosec // four bytes
}

// An Attestation is what EAS keeps, with its names for everything.
type Attestation struct {
	Uid            common.Hash //nolint:revive // the ABI library finds fields by these names
	Schema         common.Hash
	Time           uint64
	ExpirationTime uint64
	RevocationTime uint64
	RefUID         common.Hash
	Recipient      common.Address
	Attester       common.Address
	Revocable      bool
	Data           []byte
}

// Moment returns when the attestation was made, which is the time of its block.
func (a Attestation) Moment() time.Time {
	return time.Unix(int64(min(a.Time, 1<<62)), 0).UTC()
}

// UIDWith returns the UID that EAS gives to a, which is not what a.Uid says:
//
//	keccak256(abi.encodePacked(bytes32 schema, address recipient, address attester, uint64 time,
//	          uint64 expirationTime, bool revocable, bytes32 refUID, bytes data, uint32 bump))
//
// EAS counts bump up from 0 until the UID is new.
func (a Attestation) UIDWith(bump uint32) common.Hash {
	b := make([]byte, 0, 32+20+20+8+8+1+32+len(a.Data)+4)
	b = append(b, a.Schema[:]...)
	b = append(b, a.Recipient[:]...)
	b = append(b, a.Attester[:]...)
	b = binary.BigEndian.AppendUint64(b, a.Time)
	b = binary.BigEndian.AppendUint64(b, a.ExpirationTime)
	if a.Revocable {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = append(b, a.RefUID[:]...)
	b = append(b, a.Data...)
	return crypto.Keccak256Hash(binary.BigEndian.AppendUint32(b, bump))
}

// maxBump is how many attestations that are alike in all but their UID are
// thought possible. One is normal; a second needs two transactions of equal content
// in blocks of the same second.
const maxBump = 64

// Check returns what a says of a batch, if it is an attestation by attester under
// schema as we make them: without a recipient, never expiring, irrevocable, with
// data of the exact form and the UID that follows. Anything else is a
// [domain.ErrInvalid] that says what is wrong.
func (a Attestation) Check(schema common.Hash, attester common.Address) (Statement, error) {
	wrong := func(format string, args ...any) (Statement, error) {
		return Statement{}, fmt.Errorf("the attestation %s %s: %w", a.Uid, fmt.Sprintf(format, args...), domain.ErrInvalid)
	}
	switch {
	case a.Schema != schema:
		return wrong("is under the schema %s and not %s", a.Schema, schema)
	case a.Attester != attester:
		return wrong("was made by %s and not by %s", a.Attester, attester)
	case a.Recipient != common.Address{}:
		return wrong("has the recipient %s", a.Recipient)
	case a.Revocable || a.RevocationTime != 0:
		return wrong("can be revoked")
	case a.ExpirationTime != 0:
		return wrong("expires")
	}
	s, err := Decode(a.Data)
	if err != nil {
		return wrong("cannot be read: %s", domain.Sentence(err))
	}
	for bump := range uint32(maxBump) {
		if a.UIDWith(bump) == a.Uid {
			return s, nil
		}
	}
	return wrong("has a UID that does not follow from it")
}

// CheckBatch checks that a is the attestation of a sealed batch that is on record
// as recorded. What differs is a [domain.ErrInvalid].
func (a Attestation) CheckBatch(sealed batch.Sealed, recorded batch.Attested) error {
	said, err := a.Check(common.Hash(sealed.Schema), common.Address(recorded.Attester))
	switch {
	case err != nil:
		return err
	case said != StatementOf(sealed):
		return fmt.Errorf("the attestation %s says something else than batch %d: %w", a.Uid, sealed.Batch, domain.ErrInvalid)
	case a.Uid != common.Hash(recorded.UID) || a.RefUID != common.Hash(recorded.RefUID) || !a.Moment().Equal(recorded.Time):
		return fmt.Errorf("the attestation %s is not what is on record of batch %d: %w", a.Uid, sealed.Batch, domain.ErrInvalid)
	}
	return nil
}

// A Deployment is where EAS is on a chain.
type Deployment struct {
	EAS      common.Address
	Registry common.Address
}

// DeploymentOn returns where EAS is on the chains that it is built in for: Base,
// Optimism, their Sepolia test networks, and Sepolia. The addresses are those of
// the folder deployments of the npm package
// @ethereum-attestation-service/eas-contracts 1.9.0; the first four chains have
// EAS at addresses that the OP Stack reserves for it.
func DeploymentOn(chain uint64) (Deployment, bool) {
	switch chain {
	case 8453, 84532, 10, 11155420:
		return Deployment{
			common.HexToAddress("0x4200000000000000000000000000000000000021"),
			common.HexToAddress("0x4200000000000000000000000000000000000020"),
		}, true
	case 11155111:
		return Deployment{
			common.HexToAddress("0xC2679fBD37d54388Ce493F1DB75320D236e1815e"),
			common.HexToAddress("0x0a7E2Ff54e76B8E6659aedc9103FB21c038050D0"),
		}, true
	}
	return Deployment{}, false
}

// parse reads an ABI that is part of the program.
func parse(text string) abi.ABI {
	a, err := abi.JSON(strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	return a
}
