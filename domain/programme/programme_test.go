package programme_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	publish := func(t programme.TermsPublished, p programme.PoolPublished, c programme.CataloguePublished, keys ...domain.Hash) programme.Publish {
		return programme.Publish{Terms: t, Pool: p, Catalogue: c, Keys: keys}
	}
	key := func(secret byte) domain.Hash { return programme.OperatorKey(domain.Hash{secret}) }
	registered := func(secret byte) programme.OperatorKeyRegistered {
		return programme.OperatorKeyRegistered{Key: key(secret)}
	}
	retired := func(secret byte) programme.OperatorKeyRetired {
		return programme.OperatorKeyRetired{Key: key(secret), Reason: "a year is over"}
	}
	retire := func(secret byte, needed ...string) programme.RetireKey {
		return programme.RetireKey{Key: key(secret), Reason: "a year is over", Needed: needed}
	}
	paused := programme.Paused{Scope: programme.Everything, Reason: "incident at the operator"}
	resumed := programme.Resumed{Scope: programme.Everything, Reason: "resolved"}
	host := programme.Paused{Scope: programme.OfHost("agent.example:443"), Reason: "it complains"}

	type events = []programme.Event
	first := events{terms(1, 1), pool(1, 2), catalogue(3)}
	begun := func(keys ...programme.Event) events { return append(keys, first...) }
	same := func(keys ...domain.Hash) programme.Publish {
		return publish(terms(1, 1), pool(1, 2), catalogue(3), keys...)
	}
	ann := programme.MaintainerRegistered{Name: "Ann", Key: domain.Hash{1}}
	annLeft := programme.MaintainerRetired{Name: "Ann", Key: domain.Hash{1}, Reason: "left"}
	maintains := func(name string, key byte) programme.RegisterMaintainer {
		return programme.RegisterMaintainer{Name: name, Key: domain.Hash{key}}
	}
	high := programme.ConfigChanged{Setting: programme.IncidentSeverity, Value: "high"}
	severity := func(value string) programme.Publish {
		c := same(key(1))
		c.IncidentSeverity = value
		return c
	}
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
			When: same(key(1)), Then: events{registered(1), terms(1, 1), pool(1, 2), catalogue(3)},
		},
		{
			Name: "publish with several operator keys for the first time",
			When: same(key(1), key(2)), Then: append(events{registered(1), registered(2)}, first...),
		},
		{Name: "publish under the same operator key", Given: begun(registered(1)), When: same(key(1))},
		{
			Name: "publish with a further operator key", Given: begun(registered(1)),
			When: same(key(1), key(2)), Then: events{registered(2)},
		},
		{Name: "publish without an older operator key", Given: begun(registered(1), registered(2)), When: same(key(2))},
		{Name: "publish without a newer operator key", Given: begun(registered(1), registered(2)), When: same(key(1))},
		{Name: "publish under a stranger's operator secret", Given: begun(registered(1)), When: same(key(2)), Err: domain.ErrConflict},
		{Name: "publish without any operator secret", Given: begun(registered(1)), When: same(), Err: domain.ErrConflict},
		{Name: "publish with a retired key among older ones", Given: begun(registered(1), registered(2), retired(1)), When: same(key(1), key(2))},
		{
			Name: "publish with a retired key as the current one", Given: begun(registered(1), registered(2), retired(1)),
			When: same(key(2), key(1)), Err: domain.ErrConflict,
		},
		{
			Name: "publish with a retired key alone", Given: begun(registered(1), registered(2), retired(1)),
			When: same(key(1)), Err: domain.ErrConflict,
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

		{Name: "register a key", Given: events{registered(1)}, When: programme.RegisterKey(registered(2)), Then: events{registered(2)}},
		{Name: "register a key twice", Given: events{registered(1)}, When: programme.RegisterKey(registered(1))},
		{
			Name: "register a retired key", Given: events{registered(1), registered(2), retired(1)},
			When: programme.RegisterKey(registered(1)), Err: domain.ErrConflict,
		},
		{Name: "retire a key", Given: events{registered(1), registered(2)}, When: retire(1), Then: events{retired(1)}},
		{Name: "retire a key twice", Given: events{registered(1), registered(2), retired(1)}, When: retire(1)},
		{Name: "retire an unknown key", Given: events{registered(1)}, When: retire(2), Err: domain.ErrNotFound},
		{Name: "retire the only key", Given: events{registered(1)}, When: retire(1), Err: domain.ErrConflict},
		{Name: "retire the newest key", Given: events{registered(1), registered(2)}, When: retire(2), Err: domain.ErrConflict},
		{
			Name: "retire the newest key in force", Given: events{registered(1), registered(2), registered(3), retired(2)},
			When: retire(3), Err: domain.ErrConflict,
		},
		{Name: "retire a key that a consent needs", Given: events{registered(1), registered(2)}, When: retire(1, "cns_a"), Err: domain.ErrConflict},
		{
			Name: "retire a key without a reason", Given: events{registered(1), registered(2)},
			When: programme.RetireKey{Key: key(1)}, Err: domain.ErrInvalid,
		},

		{Name: "register a maintainer", When: programme.RegisterMaintainer(ann), Then: events{ann}},
		{Name: "register a maintainer twice", Given: events{ann}, When: programme.RegisterMaintainer(ann)},
		{Name: "register a second key of a maintainer", Given: events{ann}, When: maintains("Ann", 2), Err: domain.ErrConflict},
		{Name: "register a key for another maintainer", Given: events{ann}, When: maintains("Bob", 1), Err: domain.ErrConflict},
		{Name: "register a maintainer again with a retired key", Given: events{ann, annLeft}, When: programme.RegisterMaintainer(ann), Err: domain.ErrConflict},
		{
			Name: "register a maintainer again with a new key", Given: events{ann, annLeft},
			When: maintains("Ann", 2), Then: events{programme.MaintainerRegistered{Name: "Ann", Key: domain.Hash{2}}},
		},
		{Name: "register a maintainer without a name", When: maintains("", 1), Err: domain.ErrInvalid},
		{Name: "register a maintainer without a key", When: maintains("Ann", 0), Err: domain.ErrInvalid},
		{Name: "retire a maintainer", Given: events{ann}, When: programme.RetireMaintainer{Name: "Ann", Reason: "left"}, Then: events{annLeft}},
		{Name: "retire a maintainer twice", Given: events{ann, annLeft}, When: programme.RetireMaintainer{Name: "Ann", Reason: "left"}},
		{Name: "retire nobody", When: programme.RetireMaintainer{Name: "Ann", Reason: "left"}, Err: domain.ErrNotFound},
		{Name: "retire a maintainer without a reason", Given: events{ann}, When: programme.RetireMaintainer{Name: "Ann"}, Err: domain.ErrInvalid},

		{Name: "leave the severity of incidents", Given: append(begun(registered(1)), high), When: same(key(1))},
		{Name: "set it to high", Given: begun(registered(1)), When: severity("high"), Then: events{high}},
		{Name: "set it to what it is", Given: append(begun(registered(1)), high), When: severity("high")},
		{Name: "set it to what it is from the start", Given: begun(registered(1)), When: severity("medium")},
		{
			Name: "set it back", Given: append(begun(registered(1)), high), When: severity("medium"),
			Then: events{programme.ConfigChanged{Setting: programme.IncidentSeverity, Value: "medium"}},
		},
		{Name: "set it to what there is not", Given: begun(registered(1)), When: severity("critical"), Err: domain.ErrInvalid},

		{Name: "pause", When: programme.Pause(paused), Then: events{paused}},
		{Name: "pause twice", Given: events{paused}, When: programme.Pause{Scope: paused.Scope, Reason: "another"}},
		{Name: "pause after a resume", Given: events{paused, resumed}, When: programme.Pause(paused), Then: events{paused}},
		{Name: "pause another scope", Given: events{paused}, When: programme.Pause(host), Then: events{host}},
		{Name: "pause a scope among others", Given: events{host, paused, resumed}, When: programme.Pause(host)},
		{Name: "pause nothing", When: programme.Pause{Reason: "no scope"}, Err: domain.ErrInvalid},
		{Name: "pause without a reason", When: programme.Pause{Scope: programme.Everything, Reason: " "}, Err: domain.ErrInvalid},
		{Name: "pause for a reason of two lines", When: programme.Pause{Scope: programme.Everything, Reason: "a\nb"}, Err: domain.ErrInvalid},
		{Name: "pause for a reason that is no text", When: programme.Pause{Scope: programme.Everything, Reason: "\xff"}, Err: domain.ErrInvalid},
		{
			Name: "pause for a long reason", When: programme.Pause{Scope: programme.Everything, Reason: strings.Repeat("ä", 501)},
			Err: domain.ErrInvalid,
		},
		{
			Name: "pause for a reason just not too long", When: programme.Pause{Scope: programme.Everything, Reason: strings.Repeat("ä", 500)},
			Then: events{programme.Paused{Scope: programme.Everything, Reason: strings.Repeat("ä", 500)}},
		},
		{Name: "resume", Given: events{paused}, When: programme.Resume(resumed), Then: events{resumed}},
		{Name: "resume what is not paused", When: programme.Resume(resumed)},
		{Name: "resume twice", Given: events{paused, resumed}, When: programme.Resume(resumed)},
		{Name: "resume everything while a host is paused", Given: events{host}, When: programme.Resume(resumed)},
		{
			Name: "resume one scope of two", Given: events{host, paused},
			When: programme.Resume{Scope: host.Scope, Reason: "settled"},
			Then: events{programme.Resumed{Scope: host.Scope, Reason: "settled"}},
		},
		{Name: "resume without a reason", Given: events{paused}, When: programme.Resume{Scope: programme.Everything}, Err: domain.ErrInvalid},
	})
}

func TestState(t *testing.T) {
	t.Parallel()
	host := programme.Paused{Scope: programme.OfHost("agent.example:443"), Reason: "it complains"}
	want := programme.State{
		Terms:     programme.TermsPublished{Version: 2, Hash: domain.Hash{9}},
		Pool:      programme.PoolPublished{Version: 1, Hash: domain.Hash{2}},
		Catalogue: programme.CataloguePublished{Digest: domain.Hash{3}},
		Keys:      []programme.Key{{ID: domain.Hash{4}, Retired: true}, {ID: domain.Hash{5}}},
		Paused:    []programme.Paused{host, {Scope: programme.Everything, Reason: "later"}},
	}
	got := programme.Decider.Replay(
		programme.TermsPublished{Version: 1, Hash: domain.Hash{1}}, want.Pool, want.Catalogue,
		programme.OperatorKeyRegistered{Key: domain.Hash{4}}, programme.OperatorKeyRegistered{Key: domain.Hash{5}},
		programme.Paused{Scope: programme.Everything, Reason: "earlier"}, host,
		programme.Resumed{Scope: programme.Everything}, want.Terms,
		programme.OperatorKeyRetired{Key: domain.Hash{4}}, want.Paused[1],
	)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	for key, inForce := range map[byte]bool{4: false, 5: true, 6: false} {
		if got.InForce(domain.Hash{key}) != inForce {
			t.Errorf("InForce(%d) = %t, want %t", key, !inForce, inForce)
		}
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, programme.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, programme.Events, os.DirFS("testdata"))
}
