package verify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/domain/verify"
)

// A bundling is what a bundle is made of.
type bundling struct {
	records   []verify.Proven
	replies   []verify.Reply
	sessions  []verify.Conversation
	documents [][]byte
	commits   []verify.Rolled
}

// write puts the records into a log of their own, signs it and makes the bundle.
func (b *bundling) write(t *testing.T) []byte {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.NewChaCha8([32]byte{7}), "karatum.com/ledger")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	leaves := make([]domain.Hash, len(b.records))
	for i := range b.records {
		leaves[i] = b.records[i].Record.Hash
	}
	signed, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: signer.Name(), Size: uint64(len(leaves)), Root: merkle.Root(leaves)}, signer)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := verify.NewBundleWriter(&out, signed, vkey, b.documents, b.commits)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range b.records {
		p.Index, p.Path = uint64(i), merkle.Path(leaves, i)
		if err := w.Record(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range b.replies {
		if err := w.Reply(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range b.sessions {
		if err := w.Conversation(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// signing returns the records of a consent as it was granted.
func signing(t *testing.T, l *life) []verify.Proven {
	t.Helper()
	p := payload()
	p.PlanKeyRoot = plan.KeyRoot(operator, p.Nonce, p.FirstDay, p.ValidityDays)
	message, err := p.Message()
	if err != nil {
		t.Fatal(err)
	}
	sig := eip191.Sign(message, ownerKey)
	at := p.IssuedAt.Add(time.Minute)
	stream := consent.StreamOf(p.Agent)
	granted := record(t, nil, stream, at, consent.Granted{
		Consent: l.plan.Consent, Payload: p, Signature: sig[:], Verified: consent.Verification{Method: consent.ByKey}, OwnerNonce: mine,
	})
	proven := record(t, []ledger.Record{granted}, stream, at, consent.HostProven{Consent: l.plan.Consent, Endpoint: "ep_0", Method: consent.ByDocument})
	return []verify.Proven{{Record: granted}, {Record: proven, Prev: granted.Hash}}
}

// planning returns the records of the plan of a day.
func planning(t *testing.T, l *life) []verify.Proven {
	t.Helper()
	p := payload()
	day := l.plan.Day
	list, err := l.list.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	stream := plan.StreamOf(l.plan.Consent)
	sealed := record(t, nil, stream, l.sealedAt, plan.Sealed{Consent: l.plan.Consent, Day: day, Commits: l.plan.Commits(), Eligible: domain.Sum(list)})
	opened := record(t, []ledger.Record{sealed}, stream, domain.DayStart(day+1).Add(time.Hour+p.RevealDelay()), plan.Opened{
		Consent: l.plan.Consent, Day: day, Planned: true, Key: plan.Key(operator, p.Nonce, day),
		Path: plan.KeyPath(operator, p.Nonce, p.FirstDay, p.ValidityDays, day), Cap: l.plan.Cap, Count: l.plan.Count, Eligible: l.list,
		Surfaces: []plan.Surface{{Endpoint: "ep_0", Hash: domain.Sum([]byte("surface"))}}, Notes: []plan.Note{},
	})
	return []verify.Proven{{Record: sealed}, {Record: opened, Prev: sealed.Hash}}
}

func replyOf(l *life) verify.Reply {
	return verify.Reply{Shop: plan.ShopID(l.plan.Consent, l.plan.Day, uint32(l.slot.Index)), Salt: l.salt, Body: []byte(l.reply)}
}

func talkOf(l *life) verify.Conversation {
	return verify.Conversation{Shop: plan.ShopID(l.plan.Consent, l.plan.Day, uint32(l.slot.Index)), Salt: talkSalt, Session: l.talk}
}

// onRecord reports whether the session that is shown is the one on record.
func onRecord(l *life) bool {
	c := l.talk.Converse(talkOf(l).Shop, talkSalt)
	var actions []domain.Hash
	for _, e := range l.session {
		if a, ok := e.(shop.SessionAction); ok {
			actions = append(actions, a.Hash)
		}
	}
	opened, ok := l.session[0].(shop.SessionOpened)
	return ok && opened.Target == c.Target && slices.Equal(actions, c.Actions)
}

// about returns all there is about one task.
func about(t *testing.T, l *life) bundling {
	t.Helper()
	b := bundling{records: append(append(signing(t, l), planning(t, l)...), l.public...)}
	if reply := replyOf(l); l.replied.CommitsTo(reply.Shop, reply.Salt, reply.Body) {
		b.replies = []verify.Reply{reply}
	}
	if onRecord(l) {
		b.sessions = []verify.Conversation{talkOf(l)}
	}
	text, err := domain.Canonical(terms.Current().Terms)
	if err != nil {
		t.Fatal(err)
	}
	b.documents = [][]byte{text}
	return b
}

func bundled(t *testing.T, l *life) []byte {
	t.Helper()
	b := about(t, l)
	b.anchor(t)
	return b.write(t)
}

// wholeDay returns all there is about the day of a task.
func wholeDay(t *testing.T) (bundling, *life) {
	t.Helper()
	_, first := lived(t, payload(), converts, 0, nil)
	b := bundling{records: append(signing(t, first), planning(t, first)...)}
	for n := range first.plan.Count {
		_, l := lived(t, payload(), converts, n, nil)
		b.records = append(b.records, l.public...)
		b.replies, b.sessions = append(b.replies, replyOf(l)), append(b.sessions, talkOf(l))
	}
	for i, s := range first.plan.Slots {
		if !s.Real {
			id := plan.ShopID(first.plan.Consent, first.plan.Day, uint32(i))
			b.records = append(b.records, verify.Proven{Record: record(t, nil, shop.StreamOf(id), first.sealedAt, shop.Committed{
				Consent: first.plan.Consent, Day: first.plan.Day, Slot: i, Commit: s.Commit,
			})})
		}
	}
	pool, err := domain.Canonical(identity.Pool())
	if err != nil {
		t.Fatal(err)
	}
	b.documents = [][]byte{pool}
	b.records = sealOnce(b.records)
	return b, first
}

// sealOnce leaves out seals of an hour that has one already: each task of the test
// makes a seal as if there were no other.
func sealOnce(records []verify.Proven) []verify.Proven {
	seen := make(map[string]bool)
	kept := records[:0]
	for _, p := range records {
		key := string(p.Record.Stream) + string(p.Record.Data[:min(len(p.Record.Data), 80)])
		if strings.HasPrefix(string(p.Record.Stream), "seal/") && seen[key] {
			continue
		}
		seen[key] = true
		kept = append(kept, p)
	}
	return kept
}

func report(t *testing.T, data []byte) *verify.BundleReport {
	t.Helper()
	x, err := verify.OpenBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.Report()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A bundle comes to the verdict that the answers of the service come to.
func TestBundleOfATask(t *testing.T) {
	t.Parallel()
	a, l := honest(t, nil)
	r := report(t, a.Bundle)
	if r.Verdict != verify.VerdictOK || len(r.Shops) != 1 || len(r.Consents) != 1 || len(r.Days) != 0 || r.Replies != 1 || r.Records != 15 {
		t.Fatalf("the report is %+v", r)
	}
	if diff := cmp.Diff(shopReport(t, a), r.Shops[0]); diff != "" {
		t.Errorf("offline it comes to something else (-online +offline):\n%s", diff)
	}
	erased := about(t, l)
	erased.anchor(t)
	shopRecord := erased.records[6]
	erased.replies, erased.sessions = nil, nil
	erased.records = append(erased.records, verify.Proven{Prev: shopRecord.Record.Hash, Record: record(t,
		make([]ledger.Record, shopRecord.Record.Version), shopRecord.Record.Stream, l.at.Add(time.Hour), shop.Erased{Reason: "asked for"})})
	last := &erased.records[len(erased.records)-1].Record
	last.Hash = last.ChainHash(shopRecord.Record.Hash)
	r = report(t, erased.write(t))
	if diff := cmp.Diff([]string{"payment", "session", "reply", "grade"}, with(r.Shops[0], verify.Skipped)); diff != "" || r.Verdict != verify.VerdictOK {
		t.Errorf("erased: verdict %s; what is skipped (-want +got):\n%s", r.Verdict, diff)
	}
}

// Whatever single byte of a bundle is changed, it does not hold any more.
func TestBundleMutations(t *testing.T) {
	t.Parallel()
	_, l := lived(t, payload(), converts, 0, nil)
	b := about(t, l)
	r := &roll{} // one batch, so that there are fewer bytes
	of := r.begin(t, l.sealed.Add(5*time.Minute), l.slot.Commit, l.root)
	of.events = of.events[:3]
	r.end(t, &b, of)
	b.documents = nil // their turn comes in another test, for they are long
	data := b.write(t)
	if verdict := verdictOf(data); verdict != verify.VerdictOK {
		t.Fatalf("as it was: %s, want ok", verdict)
	}
	const digit, letterCase = 0x01, 0x20
	for i, c := range data {
		for _, flip := range []byte{digit, letterCase} {
			switch {
			case flip == letterCase && (c|letterCase < 'a' || c|letterCase > 'z'): // which means nothing else
			case raced && (i+int(flip))%8 != 0:
			default:
				if verdict := verdictOf(mutated(data, i, flip)); verdict != verify.VerdictFail {
					t.Errorf("with byte %d changed by %#x (%.40s…): %s, want fail", i, flip, data[max(i-20, 0):], verdict)
				}
			}
		}
	}
	for _, data := range [][]byte{nil, data[:len(data)-1], append(bytes.Clone(data), '\n'), append([]byte{' '}, data...)} {
		if verdict := verdictOf(data); verdict != verify.VerdictFail {
			t.Errorf("with other ends: %s, want fail", verdict)
		}
	}
}

func mutated(data []byte, i int, flip byte) []byte {
	data = bytes.Clone(data)
	data[i] ^= flip
	return data
}

// verdictOf is fail for what is no bundle.
func verdictOf(data []byte) verify.Verdict {
	x, err := verify.OpenBundle(data)
	if err != nil {
		if !errors.Is(err, verify.ErrFailed) {
			return "another error"
		}
		return verify.VerdictFail
	}
	r, err := x.Report()
	if err != nil {
		return verify.VerdictFail
	}
	return r.Verdict
}

// Changes of more than a byte, by somebody who writes JSON well.
func TestBundleRefusals(t *testing.T) {
	t.Parallel()
	a, l := honest(t, nil)
	rewrite := func(change func(body)) []byte {
		var m body
		if err := json.Unmarshal(a.Bundle, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		text, err := domain.Canonical(m)
		if err != nil {
			t.Fatal(err)
		}
		return append(text, '\n')
	}
	if !bytes.Equal(rewrite(func(body) {}), a.Bundle) {
		t.Fatal("a bundle that nobody changed is written otherwise")
	}
	first := func(m body, list string) body { return m[list].([]any)[0].(body) }
	for name, data := range map[string][]byte{
		"an extra member":            rewrite(func(m body) { m["note"] = "x" }),
		"another format":             rewrite(func(m body) { m["format"] = "karatum/ledger/bundle/v2" }),
		"no lists":                   rewrite(func(m body) { m["replies"] = nil }),
		"another key":                rewrite(func(m body) { m["key"] = otherKey(t) }),
		"a record less in the proof": rewrite(func(m body) { p := first(m, "records"); p["path"] = p["path"].([]any)[1:] }),
		"another index":              rewrite(func(m body) { first(m, "records")["index"] = 1 }),
		"records swapped":            rewrite(func(m body) { r := m["records"].([]any); r[0], r[1] = r[1], r[0] }),
		"a record twice":             rewrite(func(m body) { r := m["records"].([]any); m["records"] = append(r[:1:1], r...) }),
		"a reply twice":              rewrite(func(m body) { r := m["replies"].([]any); m["replies"] = append(r, r[0]) }),
		"a session twice":            rewrite(func(m body) { c := m["sessions"].([]any); m["sessions"] = append(c, c[0]) }),
		"another session":            rewrite(func(m body) { first(m, "sessions")["salt"] = domain.Hash{1} }),
		"a reply of nobody":          rewrite(func(m body) { first(m, "replies")["shop"] = "shp_a" }),
		"a commit twice":             rewrite(func(m body) { c := m["commits"].([]any); m["commits"] = append(c, c[0]) }),
		"another document":           rewrite(func(m body) { m["documents"] = []any{body{"n": 1}} }),
		"a line under the checkpoint": rewrite(func(m body) {
			m["checkpoint"] = m["checkpoint"].(string) + "— witness AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
		}),
	} {
		if _, err := verify.OpenBundle(data); !errors.Is(err, verify.ErrFailed) {
			t.Errorf("%s: %v, want ErrFailed", name, err)
		}
	}

	// An operator whose log holds what no ledger can.
	for name, change := range map[string]func(*bundling){
		"two plans of a day": func(b *bundling) {
			b.records[3].Record = record(t, []ledger.Record{b.records[2].Record}, b.records[2].Record.Stream, l.sealedAt, plan.Sealed{Consent: l.plan.Consent, Day: l.plan.Day})
		},
		"a plan in another stream": func(b *bundling) {
			b.records[2].Record.Stream = "plan/cns_a"
			b.records[2].Record.Hash = b.records[2].Record.ChainHash(domain.Hash{})
		},
		"a gap before the first record": func(b *bundling) {
			b.records[2].Prev = domain.Hash{1}
			b.records[2].Record.Hash = b.records[2].Record.ChainHash(domain.Hash{1})
		},
		"a reveal of nothing":       func(b *bundling) { b.records = append(b.records[:4:4], b.records[5:]...) },
		"an opening without a plan": func(b *bundling) { b.records = append(b.records[:2:2], b.records[3:]...) },
		"a sealed record": func(b *bundling) {
			b.records[4] = verify.Proven{Record: l.revealed.Records[0], Prev: b.records[4].Record.Hash}
		},
	} {
		b := about(t, l)
		change(&b)
		if _, err := verify.OpenBundle(b.write(t)); !errors.Is(err, verify.ErrFailed) {
			t.Errorf("%s: %v, want ErrFailed", name, err)
		}
	}
	b := about(t, l)
	b.records = b.records[2:]
	b.documents = nil
	if x, err := verify.OpenBundle(b.write(t)); err != nil {
		t.Errorf("without a consent: %v", err)
	} else if _, err := x.Report(); !errors.Is(err, verify.ErrFailed) {
		t.Errorf("a slot without its consent: %v, want ErrFailed", err)
	}
}

func otherKey(t *testing.T) string {
	t.Helper()
	_, vkey, err := note.GenerateKey(rand.NewChaCha8([32]byte{8}), "karatum.com/ledger")
	if err != nil {
		t.Fatal(err)
	}
	return vkey
}

// What the answers say and the log does not is found by inclusion; what the log says
// before and after the day bounds it.
func TestShopAgainstTheLog(t *testing.T) {
	t.Parallel()
	granted := func(l *life, events ...consent.Event) func(*bundling) {
		return func(b *bundling) {
			chain := []ledger.Record{b.records[0].Record, b.records[1].Record}
			for _, e := range events {
				r := record(t, chain, chain[0].Stream, l.sentAt.Add(-time.Minute), e)
				b.records = append(b.records, verify.Proven{Prev: chain[len(chain)-1].Hash, Record: r})
				chain = append(chain, r)
			}
		}
	}
	_, l := honest(t, nil)
	lost := consent.HostLost{Consent: l.plan.Consent, Endpoint: "ep_0", Reason: "gone"}
	for _, tt := range []struct {
		name   string
		answer func(*verify.Answers)
		bundle func(*bundling)
		check  string
		status verify.Status
	}{
		{"as it was", nil, nil, "inclusion", verify.Pass},
		{"another plan shown", func(a *verify.Answers) {
			a.Day = edit(t, a.Day, func(m body) { m["sealedAt"] = l.sealedAt.Add(-time.Minute) })
		}, nil, "inclusion", verify.Fail},
		{"another opening shown", func(a *verify.Answers) {
			a.Day = edit(t, a.Day, func(m body) { at(m, "opened")["cap"] = 11 })
		}, nil, "inclusion", verify.Fail},
		{"another seal shown", func(a *verify.Answers) { a.Seal = edit(t, a.Seal, func(m body) { m["hash"] = domain.Hash{1} }) }, nil, "inclusion", verify.Fail},
		{"another commit shown", func(a *verify.Answers) {
			a.Stream = edit(t, a.Stream, func(m body) { at(m, "items.0")["hash"] = domain.Hash{1} })
		}, nil, "inclusion", verify.Fail},
		{"a bundle that does not hold", func(a *verify.Answers) { a.Bundle = mutated(a.Bundle, 99, 1) }, nil, "inclusion", verify.Fail},
		{"no bundle", func(a *verify.Answers) { a.Bundle = nil }, nil, "inclusion", verify.Pending},
		{"a log without the slot", nil, func(b *bundling) { b.records, b.replies, b.sessions = b.records[:4], nil, nil }, "inclusion", verify.Pending},
		{"a log without the seal", nil, func(b *bundling) { b.records = append(b.records[:5:5], b.records[6:]...) }, "inclusion", verify.Pending},
		{"a log without the opening", nil, func(b *bundling) { b.records = append(b.records[:3:3], b.records[4:]...) }, "inclusion", verify.Pending},
		{"a host that was lost before", nil, granted(l, lost), "host", verify.Fail},
		{"a host that was lost and proven again", nil, granted(l, lost, consent.HostProven{Consent: l.plan.Consent, Endpoint: "ep_0", Method: consent.ByDocument}), "host", verify.Pass},
		{"a host that was never proven", nil, func(b *bundling) { b.records = append(b.records[:1:1], b.records[2:]...) }, "host", verify.Fail},
		{"no cap without a log", func(a *verify.Answers) { a.Bundle = nil }, nil, "cap", verify.Pending},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, l := honest(t, nil)
			if tt.bundle != nil {
				b := about(t, l)
				tt.bundle(&b)
				a.Bundle = b.write(t)
			}
			if tt.answer != nil {
				tt.answer(&a)
			}
			r := shopReport(t, a)
			for _, c := range r.Checks {
				if c.ID == tt.check && c.Status != tt.status {
					t.Errorf("%s is %s: %s; want %s", c.ID, c.Status, c.Detail, tt.status)
				}
			}
		})
	}
}

func dayOf(t *testing.T, b bundling, l *life) *verify.DayReport {
	t.Helper()
	b.anchor(t)
	x, err := verify.OpenBundle(b.write(t))
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.Day(l.plan.Consent, l.plan.Day)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func withOf(r *verify.DayReport, status verify.Status) []string {
	return with(&verify.ShopReport{Checks: r.Checks}, status)
}

func TestDay(t *testing.T) {
	t.Parallel()
	b, l := wholeDay(t)
	r := dayOf(t, b, l)
	if r.Verdict != verify.VerdictOK || r.Phase != "opened" || len(withOf(r, verify.Pass)) != 15 {
		t.Errorf("verdict %s: %+v", r.Verdict, r.Checks)
	}
	b.anchor(t)
	if all := report(t, b.write(t)); all.Verdict != verify.VerdictOK || len(all.Shops) != plan.Slots || len(all.Days) != 1 {
		t.Errorf("the whole bundle comes to %s with %d slots and %d days", all.Verdict, len(all.Shops), len(all.Days))
	}
	x, err := verify.OpenBundle(b.write(t))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := verify.DayOf(mutated(b.write(t), 99, 1), l.plan.Consent, l.plan.Day); err != nil || r.Verdict != verify.VerdictFail {
		t.Errorf("a day of a bundle that does not hold: %+v, %v", r, err)
	}
	if _, err := x.Day("cns_a", l.plan.Day); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("a day of nobody's: %v, want ErrNotFound", err)
	}
	if r, err := x.Day(l.plan.Consent, l.plan.Day+1); err != nil || r.Phase != "absent" || r.Verdict != verify.VerdictPending {
		t.Errorf("a day that is not there: %+v, %v", r, err)
	}
}

// Before it is opened the report of a day says nothing of its slots, whatever became
// of them.
func TestDaySealed(t *testing.T) {
	t.Parallel()
	b, l := wholeDay(t)
	b.records, b.replies, b.sessions = append(b.records[:3:3], b.records[4:]...), nil, nil
	before := dayOf(t, b, l)
	kept := b.records[:0:0]
	for _, p := range b.records {
		if p.Record.Type != (shop.Revealed{}).EventType() {
			kept = append(kept, p)
		}
	}
	b.records = kept
	after := dayOf(t, b, l)
	if diff := cmp.Diff(before.Checks[1:], after.Checks[1:]); diff != "" || before.Phase != after.Phase { // the first says how long the log is
		t.Errorf("that a task was revealed can be told:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"inclusion", "consent", "plan", "commits", "batch", "attestation"}, withOf(before, verify.Pass)); diff != "" || before.Verdict != verify.VerdictPending || before.Phase != "sealed" {
		t.Errorf("%s, verdict %s; what passes (-want +got):\n%s", before.Phase, before.Verdict, diff)
	}
}

// An operator whose log agrees with itself is still found out.
func TestDayLies(t *testing.T) {
	t.Parallel()
	opened := func(change func(*plan.Opened, *time.Time)) func(*bundling) {
		return func(b *bundling) {
			r := b.records[3].Record
			e, when := jsonOf[plan.Opened](r.Data), r.Time
			change(&e, &when)
			b.records[3].Record = record(t, []ledger.Record{b.records[2].Record}, r.Stream, when, e)
		}
	}
	noting := func(n plan.Note) func(*plan.Opened, *time.Time) {
		return func(e *plan.Opened, _ *time.Time) { e.Notes = []plan.Note{n} }
	}
	first := func(b *bundling, typ domain.Type) int {
		for i := range b.records {
			if b.records[i].Record.Type == typ {
				return i
			}
		}
		panic(typ)
	}
	for _, tt := range []struct {
		name string
		lie  func(*bundling)
		fail []string
	}{
		{"another key", opened(func(e *plan.Opened, _ *time.Time) { e.Key[0] ^= 1 }), []string{"key"}},
		{"another cap", opened(func(e *plan.Opened, _ *time.Time) { e.Cap-- }), []string{"cap"}},
		{"another count", opened(func(e *plan.Opened, _ *time.Time) { e.Count++ }), []string{"count"}},
		{"opened early", opened(func(_ *plan.Opened, at *time.Time) { *at = at.Add(-time.Minute) }), []string{"opening"}},
		{"opened two days late", opened(func(_ *plan.Opened, at *time.Time) { *at = at.AddDate(0, 0, 2) }), []string{"opening"}},
		{"a day said to have no plan", opened(noting(plan.Note{Reason: plan.NoPlan})), []string{"notes"}},
		{"a task said to be missed", opened(noting(plan.Note{Reason: plan.Reason(shop.HostBusy), Count: 1})), []string{"notes"}},
		{"an endpoint said to be out of scope", opened(noting(plan.Note{Endpoint: "ep_0", Reason: plan.KindLeftOut})), []string{"notes"}},
		{"an endpoint said to be unread", opened(noting(plan.Note{Endpoint: "ep_0", Reason: plan.Unread})), []string{"notes"}},
		{"an endpoint said to be for sale", opened(noting(plan.Note{Endpoint: "ep_0", Reason: plan.NoPayer})), []string{"notes"}},
		{"an endpoint said to offer nothing", opened(noting(plan.Note{Endpoint: "ep_0", Reason: plan.NothingOffered})), []string{"notes"}},
		{"an endpoint of nobody's", opened(noting(plan.Note{Endpoint: "ep_1", Reason: plan.Unread})), []string{"notes"}},
		{"an endpoint that was not read, and nothing says so", opened(func(e *plan.Opened, _ *time.Time) { e.Surfaces = []plan.Surface{} }), []string{"notes"}},
		{"an empty list, and nothing says why", opened(func(e *plan.Opened, _ *time.Time) { e.Eligible.Endpoints = []plan.EligibleEndpoint{} }), []string{"notes"}},
		{"a task that is not revealed", func(b *bundling) {
			i := first(b, shop.Revealed{}.EventType())
			b.records, b.replies, b.sessions = append(b.records[:i:i], b.records[i+1:]...), b.replies[1:], b.sessions[1:]
		}, []string{"permutation"}},
		{"a pad that is none", func(b *bundling) {
			last := &b.records[len(b.records)-1].Record // of a pad
			e := jsonOf[shop.Committed](last.Data)
			e.Commit[0] ^= 1
			*last = record(t, nil, last.Stream, last.Time, e)
		}, []string{"commits", "pads"}},
		{"a reply that is not shown", func(b *bundling) { b.replies = b.replies[1:] }, []string{"tasks"}},
		{"a session that is not shown", func(b *bundling) { b.sessions = b.sessions[1:] }, []string{"tasks"}},
		{"planned too late", func(b *bundling) {
			r := &b.records[2].Record
			r.Time = r.Time.Add(3 * time.Hour)
			r.Hash = r.ChainHash(domain.Hash{})
			b.records[3].Prev = r.Hash
			b.records[3].Record.Hash = b.records[3].Record.ChainHash(r.Hash)
		}, []string{"plan", "tasks"}},
		{"without a plan", func(b *bundling) {
			opened(func(e *plan.Opened, _ *time.Time) { e.Planned = false })(b)
			b.records[3].Record = record(t, nil, b.records[3].Record.Stream, b.records[3].Record.Time, jsonOf[plan.Opened](b.records[3].Record.Data))
			b.records[3].Prev = domain.Hash{}
			b.records, b.replies, b.sessions = append(b.records[:2:2], b.records[3]), nil, nil
		}, []string{"plan"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, l := wholeDay(t)
			tt.lie(&b)
			r := dayOf(t, b, l)
			failed := withOf(r, verify.Fail)
			for _, id := range tt.fail {
				if !slices.Contains(failed, id) || r.Verdict != verify.VerdictFail {
					t.Errorf("verdict %s, %v fail, want %s among them: %+v", r.Verdict, failed, id, r.Checks)
				}
			}
		})
	}
}

func jsonOf[T any](data []byte) (v T) {
	if err := json.Unmarshal(data, &v); err != nil {
		panic(err)
	}
	return v
}

// The tasks of the six days before count against the cap, whatever consent they were
// sent under.
func TestCapOfTheSixDaysBefore(t *testing.T) {
	t.Parallel()
	_, l := lived(t, payload(), converts, 0, nil)
	p := payload()
	p.Nonce, p.FirstDay, p.LastDay = domain.Sum([]byte("an earlier nonce")), p.FirstDay-8, p.FirstDay-1
	p.ValidityDays, p.IssuedAt = 8, p.IssuedAt.AddDate(0, 0, -8)
	earlier := plan.ConsentID(p.Nonce)
	for _, tt := range []struct {
		name   string
		sealed bool
		counts map[uint32]int // by days before
		want   verify.Status
	}{
		{name: "nothing before", want: verify.Pass},
		{name: "few before", counts: map[uint32]int{1: 12, 6: 12}, want: verify.Pass},
		{name: "many seven days before", counts: map[uint32]int{7: 24, 6: 12, 5: 12, 4: 12, 3: 12}, want: verify.Pass},
		{name: "many before", counts: map[uint32]int{6: 12, 5: 12, 4: 12, 3: 12, 2: 12}, want: verify.Fail},
		{name: "a day that is not opened", sealed: true, want: verify.Pending},
	} {
		b := about(t, l)
		signed := record(t, []ledger.Record{b.records[0].Record, b.records[1].Record}, b.records[0].Record.Stream, p.IssuedAt, consent.Granted{
			Consent: earlier, Payload: p, Signature: consent.Signature{1}, Verified: consent.Verification{Method: consent.ByKey}, OwnerNonce: mine,
		})
		b.records = append(b.records, verify.Proven{Record: signed, Prev: b.records[1].Record.Hash})
		chain := []ledger.Record{}
		add := func(e plan.Event) {
			r := record(t, chain, plan.StreamOf(earlier), p.IssuedAt, e)
			proven := verify.Proven{Record: r}
			if len(chain) > 0 {
				proven.Prev = chain[len(chain)-1].Hash
			}
			b.records, chain = append(b.records, proven), append(chain, r)
		}
		for back, count := range tt.counts {
			add(plan.Opened{Consent: earlier, Day: l.plan.Day - back, Count: count, Path: []domain.Hash{}, Surfaces: []plan.Surface{}, Notes: []plan.Note{}})
		}
		if tt.sealed {
			add(plan.Sealed{Consent: earlier, Day: l.plan.Day - 2})
		}
		x, err := verify.OpenBundle(b.write(t))
		if err != nil {
			t.Fatal(err)
		}
		d, err := x.Day(l.plan.Consent, l.plan.Day)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range d.Checks {
			if c.ID == "cap" && c.Status != tt.want {
				t.Errorf("%s: %s: %s; want %s", tt.name, c.Status, c.Detail, tt.want)
			}
		}
	}
}

// Bytes that make no sense are refused, and never a panic.
func FuzzOpenBundle(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"checkpoint":"","commits":[],"documents":[],"format":"karatum/ledger/bundle/v1","key":"","records":[],"replies":[],"sessions":[]}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := verify.OpenBundle(data)
		if err == nil {
			_, _ = x.Report()
		} else if !errors.Is(err, verify.ErrFailed) {
			t.Errorf("OpenBundle: %v, which is no ErrFailed", err)
		}
	})
}
