package programme_test

import (
	"os"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/programme"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	terms := func(version uint32, hash byte) programme.TermsPublished {
		return programme.TermsPublished{Version: version, Hash: domain.Hash{hash}}
	}
	pool := func(version uint32, hash byte) programme.PoolPublished {
		return programme.PoolPublished{Version: version, Hash: domain.Hash{hash}}
	}
	catalogue := func(digest byte) programme.CataloguePublished {
		return programme.CataloguePublished{Digest: domain.Hash{digest}}
	}
	publish := func(t programme.TermsPublished, p programme.PoolPublished, c programme.CataloguePublished) programme.Publish {
		return programme.Publish{Terms: t, Pool: p, Catalogue: c}
	}
	key := func(secret byte) programme.OperatorKeyRegistered {
		return programme.OperatorKeyRegistered{Key: programme.OperatorKey(domain.Hash{secret})}
	}
	paused, resumed := programme.Paused{Reason: "incident at the operator"}, programme.Resumed{Reason: "resolved"}

	type events = []programme.Event
	first := events{terms(1, 1), pool(1, 2), catalogue(3)}
	domaintest.Decide(t, programme.Decider, []domaintest.Case[programme.Command, programme.Event]{
		{Name: "publish for the first time", When: publish(terms(1, 1), pool(1, 2), catalogue(3)), Then: first},
		{Name: "publish the same", Given: first, When: publish(terms(1, 1), pool(1, 2), catalogue(3))},
		{
			Name: "publish new terms", Given: first,
			When: publish(terms(2, 9), pool(1, 2), catalogue(3)), Then: events{terms(2, 9)},
		},
		{
			Name: "publish new terms of the old text", Given: first,
			When: publish(terms(2, 1), pool(1, 2), catalogue(3)), Then: events{terms(2, 1)},
		},
		{
			Name: "publish a new pool", Given: first,
			When: publish(terms(1, 1), pool(3, 9), catalogue(3)), Then: events{pool(3, 9)},
		},
		{
			Name: "publish a new catalogue", Given: first,
			When: publish(terms(1, 1), pool(1, 2), catalogue(9)), Then: events{catalogue(9)},
		},
		{
			Name: "publish everything anew", Given: first,
			When: publish(terms(2, 7), pool(2, 8), catalogue(9)), Then: events{terms(2, 7), pool(2, 8), catalogue(9)},
		},
		{
			Name: "publish terms changed under their number", Given: first,
			When: publish(terms(1, 9), pool(1, 2), catalogue(3)), Err: domain.ErrConflict,
		},
		{
			Name: "publish with the operator's key for the first time",
			When: programme.Publish{Terms: terms(1, 1), Pool: pool(1, 2), Catalogue: catalogue(3), Key: key(1)},
			Then: events{key(1), terms(1, 1), pool(1, 2), catalogue(3)},
		},
		{
			Name: "publish under another operator secret", Given: append(events{key(1)}, first...),
			When: programme.Publish{Terms: terms(1, 1), Pool: pool(1, 2), Catalogue: catalogue(3), Key: key(2)}, Err: domain.ErrConflict,
		},
		{
			Name: "publish older terms", Given: events{terms(2, 1), pool(1, 2), catalogue(3)},
			When: publish(terms(1, 1), pool(1, 2), catalogue(3)), Err: domain.ErrConflict,
		},
		{
			Name: "publish a pool changed under its number", Given: first,
			When: publish(terms(2, 9), pool(1, 9), catalogue(3)), Err: domain.ErrConflict,
		},
		{
			Name: "publish an older pool", Given: events{terms(1, 1), pool(2, 2), catalogue(3)},
			When: publish(terms(1, 1), pool(1, 2), catalogue(3)), Err: domain.ErrConflict,
		},
		{
			Name: "publish terms without a version",
			When: publish(terms(0, 1), pool(1, 2), catalogue(3)), Err: domain.ErrConflict,
		},
		{Name: "publish while paused", Given: events{paused}, When: publish(terms(1, 1), pool(1, 2), catalogue(3)), Then: first},

		{Name: "pause", When: programme.Pause(paused), Then: events{paused}},
		{Name: "pause twice", Given: events{paused}, When: programme.Pause{Reason: "another"}},
		{Name: "pause after a resume", Given: events{paused, resumed}, When: programme.Pause(paused), Then: events{paused}},
		{Name: "resume", Given: events{paused}, When: programme.Resume(resumed), Then: events{resumed}},
		{Name: "resume what is not paused", When: programme.Resume(resumed)},
		{Name: "resume twice", Given: events{paused, resumed}, When: programme.Resume(resumed)},
	})
}

func TestState(t *testing.T) {
	t.Parallel()
	want := programme.State{
		Terms:     programme.TermsPublished{Version: 2, Hash: domain.Hash{9}},
		Pool:      programme.PoolPublished{Version: 1, Hash: domain.Hash{2}},
		Catalogue: programme.CataloguePublished{Digest: domain.Hash{3}},
		Paused:    true,
	}
	got := programme.Decider.Replay(
		programme.TermsPublished{Version: 1, Hash: domain.Hash{1}}, want.Pool, want.Catalogue,
		programme.Paused{}, programme.Resumed{}, want.Terms, programme.Paused{},
	)
	if got != want {
		t.Errorf("state = %+v, want %+v", got, want)
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, programme.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, programme.Events, os.DirFS("testdata"))
}
