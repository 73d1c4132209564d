package eas

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/karatum/mystery/domain"
)

// What is used of the two contracts. The types are the same in all versions that
// are deployed; some names differ, which are no part of what is encoded.
var (
	service = parse(`[
		{"type":"function","name":"attest","stateMutability":"payable","outputs":[{"name":"","type":"bytes32"}],
		 "inputs":[{"name":"request","type":"tuple","components":[
			{"name":"schema","type":"bytes32"},
			{"name":"data","type":"tuple","components":[
				{"name":"recipient","type":"address"},
				{"name":"expirationTime","type":"uint64"},
				{"name":"revocable","type":"bool"},
				{"name":"refUID","type":"bytes32"},
				{"name":"data","type":"bytes"},
				{"name":"value","type":"uint256"}]}]}]},
		{"type":"function","name":"getAttestation","stateMutability":"view",
		 "inputs":[{"name":"uid","type":"bytes32"}],
		 "outputs":[{"name":"","type":"tuple","components":[
			{"name":"uid","type":"bytes32"},
			{"name":"schema","type":"bytes32"},
			{"name":"time","type":"uint64"},
			{"name":"expirationTime","type":"uint64"},
			{"name":"revocationTime","type":"uint64"},
			{"name":"refUID","type":"bytes32"},
			{"name":"recipient","type":"address"},
			{"name":"attester","type":"address"},
			{"name":"revocable","type":"bool"},
			{"name":"data","type":"bytes"}]}]},
		{"type":"function","name":"getSchemaRegistry","stateMutability":"view","inputs":[],"outputs":[{"name":"","type":"address"}]},
		{"type":"event","name":"Attested","inputs":[
			{"name":"recipient","type":"address","indexed":true},
			{"name":"attester","type":"address","indexed":true},
			{"name":"uid","type":"bytes32"},
			{"name":"schemaUID","type":"bytes32","indexed":true}]}]`)

	registry = parse(`[
		{"type":"function","name":"register","stateMutability":"nonpayable","outputs":[{"name":"","type":"bytes32"}],
		 "inputs":[{"name":"schema","type":"string"},{"name":"resolver","type":"address"},{"name":"revocable","type":"bool"}]},
		{"type":"function","name":"getSchema","stateMutability":"view",
		 "inputs":[{"name":"uid","type":"bytes32"}],
		 "outputs":[{"name":"","type":"tuple","components":[
			{"name":"uid","type":"bytes32"},
			{"name":"resolver","type":"address"},
			{"name":"revocable","type":"bool"},
			{"name":"schema","type":"string"}]}]}]`)
)

// AttestedTopic is the first topic of the event Attested of EAS.
func AttestedTopic() common.Hash { return service.Events["Attested"].ID }

// The selectors of errors with which the contracts give up.
var (
	AlreadyExists = [4]byte{0x23, 0x36, 0x9f, 0xa6} // the schema is registered: as good as done
	InvalidSchema = [4]byte{0xbf, 0x37, 0xb2, 0x0e} // the schema is not
	NotFound      = [4]byte{0xc5, 0x72, 0x3b, 0x51} // the attestation that is referred to is not there
)

// AttestCall returns the data of a transaction to EAS that attests s under schema,
// referring to the attestation ref, which is zero for the first.
func AttestCall(schema common.Hash, s Statement, ref common.Hash) []byte {
	type request struct {
		Recipient      common.Address
		ExpirationTime uint64
		Revocable      bool
		RefUID         common.Hash
		Data           []byte
		Value          *big.Int
	}
	return pack(service, "attest", struct {
		Schema common.Hash
		Data   request
	}{schema, request{RefUID: ref, Data: s.Encode(), Value: new(big.Int)}})
}

// RegisterCall returns the data of a transaction to the registry that registers
// the schema with a resolver.
func RegisterCall(resolver common.Address) []byte {
	return pack(registry, "register", Schema, resolver, false)
}

func pack(a abi.ABI, method string, args ...any) []byte {
	data, err := a.Pack(method, args...)
	if err != nil {
		panic(err) // the arguments are ours
	}
	return data
}

// A Call runs a contract without sending anything, at a block that whoever
// provides it chooses, and returns its output.
type Call func(ctx context.Context, to common.Address, data []byte) ([]byte, error)

// Read returns the attestation that EAS, at the given address, has under uid. One
// that it does not have is a [domain.ErrNotFound]; an answer that is not an
// attestation, as of an account without code, is a [domain.ErrUnavailable].
func Read(ctx context.Context, call Call, eas common.Address, uid common.Hash) (Attestation, error) {
	out, err := call(ctx, eas, pack(service, "getAttestation", uid))
	if err != nil {
		return Attestation{}, fmt.Errorf("ask EAS for the attestation %s: %w", uid, err)
	}
	var a Attestation
	if err := unpack(service, "getAttestation", out, &a); err != nil {
		return Attestation{}, fmt.Errorf("what is at %s does not answer as EAS does (%w): %w", eas, err, domain.ErrUnavailable)
	}
	switch a.Uid {
	case uid:
		return a, nil
	case common.Hash{}: // EAS answers for any UID
		return Attestation{}, fmt.Errorf("EAS has no attestation %s: %w", uid, domain.ErrNotFound)
	}
	return Attestation{}, fmt.Errorf("what is at %s answers with another attestation than was asked for: %w", eas, domain.ErrUnavailable)
}

// RegistryOf returns the address of the schema registry that EAS, at the given address,
// goes by. An answer that is no address is a [domain.ErrUnavailable].
func RegistryOf(ctx context.Context, call Call, eas common.Address) (registry common.Address, err error) {
	out, err := call(ctx, eas, pack(service, "getSchemaRegistry"))
	if err != nil {
		return registry, fmt.Errorf("ask EAS for its registry: %w", err)
	}
	if err := service.UnpackIntoInterface(&registry, "getSchemaRegistry", out); err != nil {
		return registry, fmt.Errorf("what is at %s does not answer as EAS does (%w): %w", eas, err, domain.ErrUnavailable)
	}
	return registry, nil
}

// A SchemaRecord is what the registry keeps of a schema.
type SchemaRecord struct {
	Uid       common.Hash //nolint:revive // the ABI library finds fields by these names
	Resolver  common.Address
	Revocable bool
	Schema    string
}

// ErrSchema means that the registry has something else under our UID than our
// schema. It cannot happen to the contracts of EAS.
var ErrSchema = errors.New("another schema")

// Registered reports whether the schema with a resolver is registered. An
// answer that is no schema's is a [domain.ErrUnavailable], one that is another's an
// [ErrSchema].
func Registered(ctx context.Context, call Call, at common.Address, resolver common.Address) (bool, error) {
	uid := SchemaUID(resolver)
	out, err := call(ctx, at, pack(registry, "getSchema", uid))
	if err != nil {
		return false, fmt.Errorf("ask for the schema %s: %w", uid, err)
	}
	var r SchemaRecord
	if err := unpack(registry, "getSchema", out, &r); err != nil {
		return false, fmt.Errorf("what is at %s does not answer as a schema registry does (%w): %w", at, err, domain.ErrUnavailable)
	}
	if r.Uid == (common.Hash{}) {
		return false, nil
	}
	if (r != SchemaRecord{uid, resolver, false, Schema}) {
		return false, fmt.Errorf("the registry at %s has another schema as %s: %w", at, uid, ErrSchema)
	}
	return true, nil
}

// unpack reads the one struct that method returns into a pointer to its like.
func unpack(a abi.ABI, method string, out []byte, to any) error {
	values, err := a.Unpack(method, out)
	if err != nil {
		return err
	}
	abi.ConvertType(values[0], to)
	return nil
}

// Logs returns what to look for to find every attestation by attester under
// schema, from the block from on up to the block to.
func Logs(eas common.Address, schema common.Hash, attester common.Address, from, to uint64) ethereum.FilterQuery {
	return ethereum.FilterQuery{
		FromBlock: new(big.Int).SetUint64(from),
		ToBlock:   new(big.Int).SetUint64(to),
		Addresses: []common.Address{eas},
		Topics:    [][]common.Hash{{AttestedTopic()}, nil, {common.BytesToHash(attester[:])}, {schema}},
	}
}

// UIDs returns the UIDs of the attestations by attester under schema that logs
// tell of, in their order. Logs of another contract than EAS, and those that do not
// fit, are left out: a resolver can emit what looks like the real ones, and a node
// may not filter as it is told.
func UIDs(logs []*types.Log, eas common.Address, schema common.Hash, attester common.Address) []common.Hash {
	var list []common.Hash
	for _, l := range logs {
		if l.Address == eas && !l.Removed && len(l.Topics) == 4 && l.Topics[0] == AttestedTopic() &&
			l.Topics[2] == common.BytesToHash(attester[:]) && l.Topics[3] == schema && len(l.Data) == 32 {
			list = append(list, common.Hash(l.Data))
		}
	}
	return list
}
