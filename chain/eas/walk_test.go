package eas_test

import (
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/karatum/mystery/chain/eas"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
)

// attestationOf returns the attestation of a batch by the account 7.
func attestationOf(s batch.Sealed, ref common.Hash, at uint64) eas.Attestation {
	a := eas.Attestation{
		Schema: eas.SchemaUID(common.Address{}), Time: at, RefUID: ref, Attester: common.Address{7}, Data: eas.StatementOf(s).Encode(),
	}
	a.Uid = a.UIDWith(0)
	return a
}

func TestWalk(t *testing.T) {
	t.Parallel()
	var (
		claims []eas.Claim
		found  []eas.Attestation
	)
	for n := range uint64(4) {
		s := batch.Sealed{Batch: n + 1, Chain: 1, Root: domain.Hash{byte(n + 1)}, Count: 3, PreviousRoot: domain.Hash{byte(n)}, LogSize: 10 * n}
		var ref common.Hash
		if n > 0 {
			ref = found[n-1].Uid
		}
		if n == 0 {
			s.PreviousRoot = domain.Hash{}
		}
		a := attestationOf(s, ref, 100+n)
		found = append(found, a)
		claims = append(claims, eas.Claim{Sealed: s, Attested: &batch.Attested{Batch: s.Batch, UID: batch.Word(a.Uid)}})
	}
	garbage := found[0]
	garbage.Data = []byte{1}
	garbage.Uid = garbage.UIDWith(0)
	forged := claims[3].Sealed
	forged.Root[0]++
	edit := func(f func(c []eas.Claim, a []eas.Attestation) ([]eas.Claim, []eas.Attestation)) ([]eas.Claim, []eas.Attestation) {
		return f(slices.Clone(claims), slices.Clone(found))
	}
	type list = []eas.Claim
	type chain = []eas.Attestation
	for _, tt := range []struct {
		name string
		edit func(c list, a chain) (list, chain)
		want []eas.FaultKind
	}{
		{"as it should be", func(c list, a chain) (list, chain) { return c, a }, nil},
		{"nothing at all", func(list, chain) (list, chain) { return nil, nil }, nil},
		{"the last one only submitted", func(c list, a chain) (list, chain) { c[3].Attested = nil; return c, a[:3] }, nil},
		{"the chain ahead of the ledger", func(c list, a chain) (list, chain) { c[3].Attested = nil; return c, a }, nil},
		{"begun in between", func(c list, a chain) (list, chain) { return c[2:], a[2:] }, nil},
		{"one missing at the end", func(c list, a chain) (list, chain) { return c, a[:3] }, []eas.FaultKind{eas.Missing}},
		{"one missing in between", func(c list, a chain) (list, chain) { return c, slices.Delete(a, 1, 2) }, []eas.FaultKind{eas.Gap, eas.Missing}},
		{"garbage among them", func(c list, a chain) (list, chain) { return c, slices.Insert(a, 2, garbage) }, []eas.FaultKind{eas.Unreadable}},
		{"a twin of another time", func(c list, a chain) (list, chain) {
			return c, append(a, attestationOf(c[3].Sealed, a[2].Uid, 200))
		}, []eas.FaultKind{eas.Twin}},
		{"a twin with another content", func(c list, a chain) (list, chain) { return c, append(a, attestationOf(forged, a[2].Uid, 200)) }, []eas.FaultKind{eas.Twin}},
		{"another content", func(c list, a chain) (list, chain) { a[3] = attestationOf(forged, a[2].Uid, 103); return c, a }, []eas.FaultKind{eas.Orphan}},
		{"one that the ledger hides", func(c list, a chain) (list, chain) { return c[:3], a }, []eas.FaultKind{eas.Orphan}},
		{"another attestation than the ledger shows", func(c list, a chain) (list, chain) {
			a[3] = attestationOf(c[3].Sealed, a[2].Uid, 300)
			return c, a
		}, []eas.FaultKind{eas.Orphan}},
		{"another reference", func(c list, a chain) (list, chain) {
			a[3] = attestationOf(c[3].Sealed, a[1].Uid, 103)
			c[3].Attested = &batch.Attested{Batch: 4, UID: batch.Word(a[3].Uid)}
			return c, a
		}, []eas.FaultKind{eas.Broken}},
		{"another order", func(c list, a chain) (list, chain) { a[2], a[3] = a[3], a[2]; return c, a }, []eas.FaultKind{eas.Gap, eas.Broken}},
		{"somebody else's", func(c list, a chain) (list, chain) { a[3].Attester[0]++; return c, a }, []eas.FaultKind{eas.Unreadable, eas.Missing}},
	} {
		c, a := edit(tt.edit)
		var got []eas.FaultKind
		for _, f := range eas.Walk(eas.SchemaUID(common.Address{}), common.Address{7}, c, a) {
			got = append(got, f.Kind)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: Walk finds %v, want %v", tt.name, got, tt.want)
		}
	}
}
