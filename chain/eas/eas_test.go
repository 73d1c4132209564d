package eas_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/chain/devchain"
	"github.com/karatum/mystery/chain/devchain/eascontracts"
	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/chain/node"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/eip191"
)

var (
	key      = keyOf(1)
	stranger = keyOf(2)
	schema   = eas.SchemaUID(common.Address{})
)

func keyOf(b byte) *ecdsa.PrivateKey {
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		panic(err)
	}
	return key
}

func address(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

var statement = eas.Statement{
	Root: domain.Hash{0xaa, 31: 1}, Batch: 2, Count: 1024, PreviousRoot: domain.Hash{0xbb, 31: 2}, LogSize: 1 << 40, LogRoot: domain.Hash{0xcc, 31: 3},
}

const statementHex = "" +
	"aa00000000000000000000000000000000000000000000000000000000000001" +
	"0000000000000000000000000000000000000000000000000000000000000002" +
	"0000000000000000000000000000000000000000000000000000000000000400" +
	"bb00000000000000000000000000000000000000000000000000000000000002" +
	"0000000000000000000000000000000000000000000000000000010000000000" +
	"cc00000000000000000000000000000000000000000000000000000000000003"

// What EAS 1.4.0 computes, on three nodes.
func TestIdentifiers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		got  common.Hash
		want string
	}{
		{"the schema", schema, "0xe85ecd4945da63b9dba7113d2e4ad9f4888b43a788b5e3db1215ff4a6b1d9c92"},
		{"Attested", eas.AttestedTopic(), "0x8bf46bf4cfd674fa735a3d63ec1c9ad4153f033c290341f3a588b75685141b35"},
	} {
		if tt.got != common.HexToHash(tt.want) {
			t.Errorf("%s is %s, want %s", tt.name, tt.got, tt.want)
		}
	}
	if eas.SchemaUID(common.Address{1}) == schema {
		t.Error("the UID of the schema does not depend on the resolver")
	}
}

func TestDeploymentOn(t *testing.T) {
	t.Parallel()
	for chain, want := range map[uint64]string{
		8453: "0x4200000000000000000000000000000000000021", 84532: "0x4200000000000000000000000000000000000021",
		10: "0x4200000000000000000000000000000000000021", 11155420: "0x4200000000000000000000000000000000000021",
		11155111: "0xC2679fBD37d54388Ce493F1DB75320D236e1815e",
	} {
		if d, ok := eas.DeploymentOn(chain); !ok || d.EAS.Hex() != want || d.Registry == (common.Address{}) {
			t.Errorf("DeploymentOn(%d) = %v, %t, want EAS at %s", chain, d, ok, want)
		}
	}
	if d, ok := eas.DeploymentOn(1337); ok {
		t.Errorf("DeploymentOn(1337) = %v, want none", d)
	}
}

func TestStatement(t *testing.T) {
	t.Parallel()
	data := statement.Encode()
	if got := hex.EncodeToString(data); got != statementHex {
		t.Errorf("Encode =\n%s, want\n%s", got, statementHex)
	}
	if got, err := eas.Decode(data); err != nil || got != statement {
		t.Errorf("Decode = %+v, %v, want %+v", got, err, statement)
	}
	for name, change := range map[string]func([]byte) []byte{
		"nothing":             func([]byte) []byte { return nil },
		"one byte":            func([]byte) []byte { return []byte{1} },
		"a byte less":         func(d []byte) []byte { return d[:len(d)-1] },
		"a byte more":         func(d []byte) []byte { return append(d, 0) },
		"a word more":         func(d []byte) []byte { return append(d, make([]byte, 32)...) },
		"a batch of 65 bits":  func(d []byte) []byte { d[32+23] = 1; return d },
		"a count of 33 bits":  func(d []byte) []byte { d[64+27] = 1; return d },
		"a size of 256 bits":  func(d []byte) []byte { d[128] = 0x80; return d },
		"a batch below zero":  func(d []byte) []byte { return append(d[:32], append(bytes.Repeat([]byte{0xff}, 32), d[64:]...)...) },
		"a selector in front": func(d []byte) []byte { return append([]byte{1, 2, 3, 4}, d...) },
	} {
		if got, err := eas.Decode(change(statement.Encode())); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: Decode = %+v, %v, want ErrInvalid", name, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(statement.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := eas.Decode(data)
		if err == nil && !bytes.Equal(s.Encode(), data) {
			t.Fatalf("%x reads as %+v, which is written otherwise", data, s)
		}
	})
}

// Whatever a node answers is an error or the attestation that was asked for.
func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 32*12))
	f.Add(append(append(make([]byte, 31), 0x20), make([]byte, 32*12)...))
	f.Fuzz(func(t *testing.T, out []byte) {
		call := func(context.Context, common.Address, []byte) ([]byte, error) { return out, nil }
		if a, err := eas.Read(t.Context(), call, common.Address{1}, common.Hash{2}); err == nil && a.Uid != (common.Hash{2}) {
			t.Fatalf("%x reads as %+v", out, a)
		}
		_, _ = eas.Registered(t.Context(), call, common.Address{1}, common.Address{})
		_, _ = eas.RegistryOf(t.Context(), call, common.Address{1})
	})
}

// good is an attestation as it should be.
func good() eas.Attestation {
	a := eas.Attestation{Schema: schema, Time: 1_767_323_110, RefUID: common.Hash{7}, Attester: address(key), Data: statement.Encode()}
	a.Uid = a.UIDWith(0)
	return a
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*eas.Attestation)
		says   string // what is wrong; empty: nothing
	}{
		{"as it should be", func(*eas.Attestation) {}, ""},
		{"a twin", func(a *eas.Attestation) { a.Uid = a.UIDWith(3) }, ""},
		{"another schema", func(a *eas.Attestation) { a.Schema[0]++ }, "schema"},
		{"another attester", func(a *eas.Attestation) { a.Attester[0]++ }, "was made by"},
		{"a recipient", func(a *eas.Attestation) { a.Recipient[0]++ }, "recipient"},
		{"revocable", func(a *eas.Attestation) { a.Revocable = true }, "revoked"},
		{"revoked", func(a *eas.Attestation) { a.RevocationTime = 1 }, "revoked"},
		{"expiring", func(a *eas.Attestation) { a.ExpirationTime = 1 << 40 }, "expires"},
		{"garbage", func(a *eas.Attestation) { a.Data = []byte{1} }, "192 bytes"},
		{"another root", func(a *eas.Attestation) { a.Data[0]++ }, "does not follow"},
		{"another time", func(a *eas.Attestation) { a.Time++ }, "does not follow"},
		{"another reference", func(a *eas.Attestation) { a.RefUID[0]++ }, "does not follow"},
		{"another UID", func(a *eas.Attestation) { a.Uid[0]++ }, "does not follow"},
	} {
		a := good()
		tt.change(&a)
		got, err := a.Check(schema, address(key))
		switch {
		case tt.says == "" && (err != nil || got != statement):
			t.Errorf("%s: Check = %+v, %v", tt.name, got, err)
		case tt.says != "" && (!errors.Is(err, domain.ErrInvalid) || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: Check = %v, want an ErrInvalid about %q", tt.name, err, tt.says)
		}
	}
}

func TestCheckBatch(t *testing.T) {
	t.Parallel()
	sealed := batch.Sealed{
		Batch: statement.Batch, Chain: 84532, Schema: batch.Word(schema), Root: statement.Root, Count: statement.Count,
		PreviousRoot: statement.PreviousRoot, To: 1 << 20, LogSize: statement.LogSize, LogRoot: statement.LogRoot,
	}
	a := good()
	recorded := batch.Attested{Batch: 2, Attester: eip191.Address(address(key)), UID: batch.Word(a.Uid), RefUID: batch.Word(a.RefUID), Time: a.Moment()}
	if err := a.CheckBatch(sealed, recorded); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"another attester":   a.CheckBatch(sealed, with(recorded, func(r *batch.Attested) { r.Attester = eip191.Address(address(stranger)) })),
		"another count":      a.CheckBatch(with(sealed, func(s *batch.Sealed) { s.Count++ }), recorded),
		"another root":       a.CheckBatch(with(sealed, func(s *batch.Sealed) { s.Root[0]++ }), recorded),
		"another schema":     a.CheckBatch(with(sealed, func(s *batch.Sealed) { s.Schema[0]++ }), recorded),
		"another time":       a.CheckBatch(sealed, with(recorded, func(r *batch.Attested) { r.Time = r.Time.Add(time.Second) })),
		"another UID":        a.CheckBatch(sealed, with(recorded, func(r *batch.Attested) { r.UID[0]++ })),
		"another reference":  a.CheckBatch(sealed, with(recorded, func(r *batch.Attested) { r.RefUID[0]++ })),
		"another log's root": a.CheckBatch(with(sealed, func(s *batch.Sealed) { s.LogRoot[0]++ }), recorded),
	} {
		if !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("%s: CheckBatch = %v, want ErrInvalid", name, err)
		}
	}
}

func with[T any](v T, f func(*T)) T {
	f(&v)
	return v
}

func TestUIDs(t *testing.T) {
	t.Parallel()
	at := common.Address{0x42}
	log := func(uid byte, change func(*types.Log)) *types.Log {
		l := &types.Log{
			Address: at,
			Topics:  []common.Hash{eas.AttestedTopic(), {}, common.BytesToHash(address(key).Bytes()), schema},
			Data:    common.Hash{uid}.Bytes(),
		}
		change(l)
		return l
	}
	got := eas.UIDs([]*types.Log{
		log(1, func(*types.Log) {}),
		log(2, func(l *types.Log) { l.Address[0]++ }),
		log(3, func(l *types.Log) { l.Topics[0][0]++ }),
		log(4, func(l *types.Log) { l.Topics[2] = common.BytesToHash(address(stranger).Bytes()) }),
		log(5, func(l *types.Log) { l.Topics[3][0]++ }),
		log(6, func(l *types.Log) { l.Data = nil }),
		log(7, func(l *types.Log) { l.Data = append(l.Data, 0) }),
		log(8, func(l *types.Log) { l.Topics = l.Topics[:3] }),
		log(9, func(l *types.Log) { l.Removed = true }),
		log(10, func(*types.Log) {}),
	}, at, schema, address(key))
	if diff := cmp.Diff([]common.Hash{{1}, {10}}, got); diff != "" {
		t.Errorf("UIDs (-want +got):\n%s", diff)
	}
}

// The real contracts agree with what this package computes.
func TestContracts(t *testing.T) {
	t.Parallel()
	chain, err := devchain.New(devchain.Config{Rich: []common.Address{address(key), address(stranger)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chain.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	d, err := eascontracts.Deploy(ctx, chain, key)
	if err != nil {
		t.Fatal(err)
	}
	nodes := chain.Node()
	t.Cleanup(nodes.Close)
	call := func(ctx context.Context, to common.Address, data []byte) ([]byte, error) {
		head, err := nodes.Head(ctx)
		if err != nil {
			return nil, err
		}
		return nodes.CallAt(ctx, ethereum.CallMsg{To: &to, Data: data}, head)
	}
	registered := func() bool {
		t.Helper()
		ok, err := eas.Registered(ctx, call, d.Registry, common.Address{})
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	transact := func(key *ecdsa.PrivateKey, to common.Address, data []byte) *types.Receipt {
		t.Helper()
		r, err := chain.Transact(ctx, key, devchain.Tx{To: &to, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	gaveUp := func(to common.Address, data []byte, want [4]byte) {
		t.Helper()
		_, err := call(ctx, to, data)
		var revert *node.RevertError
		if !errors.As(err, &revert) || !bytes.HasPrefix(revert.Data, want[:]) {
			t.Errorf("the contract says %v, want it to give up with %x", err, want)
		}
	}

	if registered() {
		t.Error("the schema is registered before anybody has done so")
	}
	gaveUp(d.EAS, eas.AttestCall(schema, statement, common.Hash{}), eas.InvalidSchema)
	transact(key, d.Registry, eas.RegisterCall(common.Address{}))
	if !registered() {
		t.Error("the schema is not registered")
	}
	gaveUp(d.Registry, eas.RegisterCall(common.Address{}), eas.AlreadyExists)
	gaveUp(d.EAS, eas.AttestCall(schema, statement, common.Hash{9}), eas.NotFound)

	first := eas.UIDs(transact(key, d.EAS, eas.AttestCall(schema, statement, common.Hash{})).Logs, d.EAS, schema, address(key))
	if len(first) != 1 {
		t.Fatalf("an attestation makes %d logs, want 1", len(first))
	}
	transact(stranger, d.EAS, eas.AttestCall(schema, statement, common.Hash{}))
	// Two that are alike, in one block.
	for range 2 {
		tx := devchain.Tx{To: &d.EAS, Data: eas.AttestCall(schema, statement, first[0])}
		if _, err := tx.Send(ctx, chain.Client(), key); err != nil {
			t.Fatal(err)
		}
	}
	head, err := chain.Mine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := chain.Client().FilterLogs(ctx, eas.Logs(d.EAS, schema, address(key), 0, head.Number))
	if err != nil {
		t.Fatal(err)
	}
	var pointers []*types.Log
	for i := range logs {
		pointers = append(pointers, &logs[i])
	}
	uids := eas.UIDs(pointers, d.EAS, schema, address(key))
	if len(uids) != 3 || uids[0] != first[0] {
		t.Fatalf("the chain has the attestations %v, want three and %s first", uids, first[0])
	}
	for i, uid := range uids {
		a, err := eas.Read(ctx, call, d.EAS, uid)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.Check(schema, address(key)); err != nil || got != statement {
			t.Errorf("attestation %d: Check = %+v, %v", i, got, err)
		}
		if want := []common.Hash{{}, uids[0], uids[0]}[i]; a.RefUID != want {
			t.Errorf("attestation %d refers to %s, want %s", i, a.RefUID, want)
		}
		if bump := []uint32{0, 0, 1}[i]; a.UIDWith(bump) != uid {
			t.Errorf("attestation %d does not have bump %d", i, bump)
		}
	}
	if uids[1] == uids[2] {
		t.Error("two attestations have one UID")
	}
	if _, err := eas.Read(ctx, call, d.EAS, common.Hash{1}); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Read of an unknown UID = %v, want ErrNotFound", err)
	}
	for name, at := range map[string]common.Address{"an account without code": {5}, "another contract": d.Registry} {
		if _, err := eas.Read(ctx, call, at, uids[0]); err == nil || errors.Is(err, domain.ErrNotFound) {
			t.Errorf("Read from %s = %v, want an error that is not ErrNotFound", name, err)
		}
	}
	if got, err := eas.RegistryOf(ctx, call, d.EAS); err != nil || got != d.Registry {
		t.Errorf("RegistryOf = %s, %v, want %s", got, err, d.Registry)
	}
	for name, at := range map[string]common.Address{"an account without code": {5}, "another contract": d.Registry} {
		if got, err := eas.RegistryOf(ctx, call, at); err == nil {
			t.Errorf("RegistryOf %s = %s, want an error", name, got)
		}
	}
	if _, err := eas.Registered(ctx, call, common.Address{5}, common.Address{}); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Registered at an account without code = %v, want ErrUnavailable", err)
	}
}
