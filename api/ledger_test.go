package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections/publiclog"
)

// A publicLog puts what is in the ledger of a world under checkpoints.
type publicLog struct {
	*world

	vkey       string
	integrator publiclog.Integrator
	publisher  publiclog.Publisher
}

func (w *world) publicLog() *publicLog {
	w.t.Helper()
	skey, vkey, err := note.GenerateKey(rand.NewChaCha8([32]byte{7}), "karatum.com/ledger")
	w.ok(err)
	signer, err := note.NewSigner(skey)
	w.ok(err)
	pool := w.runner.Pool
	_, err = publiclog.Claim(w.t.Context(), pool, func() (string, error) { return vkey, nil })
	w.ok(err)
	return &publicLog{
		world: w, vkey: vkey,
		integrator: publiclog.Integrator{Log: w.log, Catalog: commands.Catalog(), Pool: pool},
		publisher:  publiclog.Publisher{Pool: pool, Signer: signer, Every: time.Minute, Now: w.clock},
	}
}

// publish covers everything that is in the ledger.
func (l *publicLog) publish() {
	l.t.Helper()
	l.ok(l.integrator.Integrate(l.t.Context()))
	l.pass(time.Minute)
	l.ok(l.publisher.Publish(l.t.Context()))
}

// note opens a checkpoint, trusting nothing but the key.
func (l *publicLog) open(signed string) checkpoint.Checkpoint {
	l.t.Helper()
	v, err := note.NewVerifier(l.vkey)
	l.ok(err)
	c, _, err := checkpoint.Policy{Log: v}.Open([]byte(signed))
	l.ok(err)
	return c
}

// noise appends public records to many streams of their own.
func (w *world) noise(n int) {
	w.t.Helper()
	for i := range n {
		w.ok(w.log.Append(w.t.Context(), ledger.Stream(fmt.Sprintf("noise/%d-%d", w.records(), i)), 0, w.meta("noise"),
			programme.Paused{Reason: `noise with <marks> & "quotes"`}))
	}
}

func TestLedgerBeforeTheFirstCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	for _, path := range []string{
		"/ledger/checkpoint", "/ledger/key", "/ledger/tile/0/000.p/1", "/ledger/tile/entries/000.p/1", "/v1/ledger", "/v1/ledger/records",
		"/v1/ledger/records/0", "/v1/ledger/streams/programme", "/v1/ledger/proofs/inclusion?index=0", "/v1/ledger/proofs/consistency?from=0",
	} {
		if a := w.do(http.MethodGet, path, ""); a.status != http.StatusNotFound || a.header.Get("Content-Type") != problem {
			t.Errorf("GET %s: %d %s", path, a.status, a.body)
		}
	}
}

const problem = "application/problem+json"

func TestLedgerSaysTheSameEverywhere(t *testing.T) {
	t.Parallel()
	l := newWorld(t).furnish().publicLog()
	l.publish()
	l.noise(300)
	l.publish()
	l.noise(3) // beyond the checkpoint
	l.ok(l.integrator.Integrate(t.Context()))

	text := l.do(http.MethodGet, "/ledger/checkpoint", "")
	if text.header.Get("Content-Type") != "text/plain; charset=utf-8" || text.header.Get("Cache-Control") != "public, max-age=5" {
		t.Errorf("the checkpoint has the headers %v", text.header)
	}
	c := l.open(text.body)
	head := l.get("/v1/ledger")
	if head["origin"] != c.Origin || head["size"] != float64(c.Size) || head["root"] != c.Root.String() || head["checkpoint"] != text.body || head["vkey"] != l.vkey {
		t.Errorf("/v1/ledger says %v, want the checkpoint %+v", head, c)
	}
	if key := l.do(http.MethodGet, "/ledger/key", ""); key.body != l.vkey+"\n" {
		t.Errorf("/ledger/key is %q", key.body)
	}

	// All records, page by page: each hash follows from the bytes, and their tree is
	// the signed one.
	var edge merkle.Edge
	for path := "/v1/ledger/records?limit=70"; path != ""; {
		a := l.do(http.MethodGet, path, "")
		if a.header.Get("Ledger-Size") != fmt.Sprint(c.Size) {
			t.Errorf("GET %s has the Ledger-Size %s, want %d", path, a.header.Get("Ledger-Size"), c.Size)
		}
		for _, r := range recordsIn(t, a.body) {
			if r.Index != edge.Size() {
				t.Fatalf("record %d comes at %d", r.Index, edge.Size())
			}
			r.check(t)
			edge.Append(r.LeafHash)
			one := l.do(http.MethodGet, fmt.Sprintf("/v1/ledger/records/%d", r.Index), "")
			if r.Index%50 == 0 && strings.TrimSpace(one.body) != string(r.raw) {
				t.Errorf("record %d alone is %s, and in the list %s", r.Index, one.body, r.raw)
			}
		}
		path, _, _ = strings.Cut(strings.TrimPrefix(a.header.Get("Link"), "<"), ">")
	}
	if edge.Size() != c.Size || edge.Root() != c.Root {
		t.Errorf("the records make a tree of %d leaves with root %s, signed are %d with %s", edge.Size(), edge.Root(), c.Size, c.Root)
	}
}

// A record is one as it is served.
type record struct {
	Index                    uint64
	PrevHash, Hash, LeafHash domain.Hash
	Record                   json.RawMessage

	raw json.RawMessage
}

func recordsIn(t *testing.T, body string) (list []record) {
	t.Helper()
	var page struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatal(err)
	}
	for _, raw := range page.Items {
		r := record{raw: raw}
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// check computes the hashes as the documentation says, with no code of ours.
func (r record) check(t *testing.T) {
	t.Helper()
	const purpose = "karatum/ledger/record/v1"
	hash := domain.Sum([]byte{0, 0, 0, byte(len(purpose))}, []byte(purpose), r.PrevHash[:], r.Record)
	if hash != r.Hash || domain.Sum([]byte{0}, hash[:]) != r.LeafHash {
		t.Errorf("record %d has the hashes %s and %s, want %s", r.Index, r.Hash, r.LeafHash, hash)
	}
}

func TestLedgerStreams(t *testing.T) {
	t.Parallel()
	l := newWorld(t).furnish().publicLog()
	l.grant(honest)
	l.publish()
	for path, want := range map[string]int{
		"/v1/ledger/streams/programme":                     0,
		"/v1/ledger/streams/agent/build:42":                0,
		"/v1/ledger/streams/consent/build:42":              0,
		"/v1/ledger/streams/consent/build%3A42":            0,
		"/v1/ledger/streams/consent%2Fbuild:42":            0,
		"/v1/ledger/streams/consent/build:42?from=999":     -1,
		"/v1/ledger/streams/consent/build:43":              404,
		"/v1/ledger/streams/shop":                          404,
		"/v1/ledger/streams/consent/build:42%00":           400,
		"/v1/ledger/streams/consent/build:42?limit=0":      422,
		"/v1/ledger/streams/consent/build:42?limit=many":   422,
		"/v1/ledger/streams/consent/build:42?position=100": 422,
	} {
		a := l.do(http.MethodGet, path, "")
		if want > 0 {
			if a.status != want {
				t.Errorf("GET %s: %d %s, want %d", path, a.status, a.body, want)
			}
			continue
		}
		list := recordsIn(t, a.body)
		if a.status != http.StatusOK || (len(list) == 0) != (want < 0) {
			t.Errorf("GET %s: %d with %d records", path, a.status, len(list))
		}
		for _, r := range list {
			r.check(t)
		}
	}
	var paged []record
	for path := "/v1/ledger/streams/programme?limit=2"; path != ""; {
		a := l.do(http.MethodGet, path, "")
		paged = append(paged, recordsIn(t, a.body)...)
		path, _, _ = strings.Cut(strings.TrimPrefix(a.header.Get("Link"), "<"), ">")
	}
	var prev domain.Hash
	for _, r := range paged {
		if r.PrevHash != prev { // a stream without sealed records is a chain of its own
			t.Errorf("record %d stands behind %s, and the one before it has %s", r.Index, r.PrevHash, prev)
		}
		prev = r.Hash
	}
	if len(paged) < 4 {
		t.Errorf("the stream of the programme has %d records", len(paged))
	}
}

func TestLedgerProofs(t *testing.T) {
	t.Parallel()
	l := newWorld(t).furnish().publicLog()
	l.publish()
	small := l.open(l.do(http.MethodGet, "/ledger/checkpoint", "").body)
	l.noise(40)
	l.publish()
	c := l.open(l.do(http.MethodGet, "/ledger/checkpoint", "").body)

	var p struct {
		Index, Size          uint64
		Hash, LeafHash, Root domain.Hash
		Path                 []domain.Hash
		Checkpoint           string
	}
	for _, query := range []string{"index=3", fmt.Sprintf("index=3&size=%d", small.Size), "index=3&size=17"} {
		a := l.do(http.MethodGet, "/v1/ledger/proofs/inclusion?"+query, "")
		l.ok(json.Unmarshal([]byte(a.body), &p))
		l.ok(merkle.VerifyPath(p.Hash, p.Index, p.Size, p.Path, p.Root))
		if a.header.Get("Vary") != "Accept" || a.header.Get("Ledger-Size") != fmt.Sprint(c.Size) {
			t.Errorf("%s: the headers are %v", query, a.header)
		}
	}
	if p.Size != 17 {
		t.Errorf("the proof is for %d records, want 17", p.Size)
	}

	// As text, checked with the code of others and the key alone.
	for query, size := range map[string]uint64{"index=3": c.Size, fmt.Sprintf("index=3&size=%d", small.Size): small.Size} {
		a := l.do(http.MethodGet, "/v1/ledger/proofs/inclusion?"+query, "", "Accept", "text/plain, application/json;q=0.5")
		head, signed, _ := strings.Cut(a.body, "\n\n")
		lines := strings.Split(head, "\n")
		if a.header.Get("Content-Type") != "text/plain; charset=utf-8" || lines[0] != "c2sp.org/tlog-proof@v1" || lines[1] != "index 3" {
			t.Fatalf("%s as text: %s", query, a.body)
		}
		var path tlog.RecordProof
		for _, line := range lines[2:] {
			h, err := tlog.ParseHash(line)
			l.ok(err)
			path = append(path, h)
		}
		s := l.open(signed)
		if s.Size != size {
			t.Errorf("%s as text carries a checkpoint of %d records, want %d", query, s.Size, size)
		}
		l.ok(tlog.CheckRecord(path, int64(s.Size), tlog.Hash(s.Root), 3, tlog.RecordHash(p.Hash[:])))
	}

	var q struct {
		From, To         uint64
		FromRoot, ToRoot domain.Hash
		Path             []string
		Checkpoint       string
	}
	l.ok(json.Unmarshal([]byte(l.do(http.MethodGet, fmt.Sprintf("/v1/ledger/proofs/consistency?from=%d", small.Size), "").body), &q))
	var path tlog.TreeProof
	for _, h := range q.Path {
		parsed, err := domain.ParseHash(h)
		l.ok(err)
		path = append(path, tlog.Hash(parsed))
	}
	if q.FromRoot != small.Root || q.ToRoot != c.Root || l.open(q.Checkpoint) != c {
		t.Errorf("the proof of consistency is %+v", q)
	}
	l.ok(tlog.CheckTree(path, int64(c.Size), tlog.Hash(c.Root), int64(small.Size), tlog.Hash(small.Root)))
}

func TestLedgerRefusals(t *testing.T) {
	t.Parallel()
	l := newWorld(t).furnish().publicLog()
	l.noise(20)
	l.publish()
	size := l.open(l.do(http.MethodGet, "/ledger/checkpoint", "").body).Size
	path := func(format string) string { return strings.ReplaceAll(format, "SIZE", fmt.Sprint(size)) }
	for _, tt := range []struct {
		path   string
		status int
	}{
		{"/ledger/tile/0/000.p/SIZE", 200},
		{"/ledger/tile/entries/000.p/SIZE", 200},
		{"/ledger/tile/0/000.p/1", 404}, // no checkpoint was ever so small
		{"/ledger/tile/0/000", 404},
		{"/ledger/tile/0/001", 404},
		{"/ledger/tile/1/000.p/1", 404},
		{"/ledger/tile/9/000.p/1", 404},
		{"/ledger/tile/0/000.p/0", 400},
		{"/ledger/tile/0/000.p/256", 400},
		{"/ledger/tile/0/000.p/01", 400},
		{"/ledger/tile/0/0", 400},
		{"/ledger/tile/64/000", 400},
		{"/ledger/tile/x", 400},
		{"/ledger/tile/", 400},
		{"/ledger/tile/0/x000/000", 400},
		{"/ledger/tile", 404},
		{"/v1/ledger/records?from=SIZE", 200},
		{"/v1/ledger/records?from=4611686018427387904", 200},
		{"/v1/ledger/records?from=9223372036854775808", 422},
		{"/v1/ledger/records?from=-1", 422},
		{"/v1/ledger/records?from=x", 422},
		{"/v1/ledger/records?limit=1001", 422},
		{"/v1/ledger/records?page=1", 422},
		{"/v1/ledger/records/SIZE", 404},
		{"/v1/ledger/records/-1", 422},
		{"/v1/ledger/records/4611686018427387904", 404},
		{"/v1/ledger/records/99999999999999999999", 422},
		{"/v1/ledger/proofs/inclusion", 422},
		{"/v1/ledger/proofs/inclusion?index=SIZE", 404},
		{"/v1/ledger/proofs/inclusion?index=SIZE&size=SIZE", 400},
		{"/v1/ledger/proofs/inclusion?index=5&size=5", 400},
		{"/v1/ledger/proofs/inclusion?index=0&size=0", 422},
		{"/v1/ledger/proofs/inclusion?index=0&size=9999", 404},
		{"/v1/ledger/proofs/consistency", 422},
		{"/v1/ledger/proofs/consistency?from=5&to=4", 400},
		{"/v1/ledger/proofs/consistency?from=0&to=SIZE", 200},
		{"/v1/ledger/proofs/consistency?from=9999", 404},
		{"/v1/ledger/proofs/consistency?from=9999&to=9999", 404},
	} {
		a := l.do(http.MethodGet, path(tt.path), "")
		if a.status != tt.status {
			t.Errorf("GET %s: %d %s, want %d", path(tt.path), a.status, a.body, tt.status)
		}
		if a.status != http.StatusOK && (a.header.Get("Content-Type") != problem || a.header.Get("Cache-Control") != "no-cache") {
			t.Errorf("GET %s: refused with the headers %v", path(tt.path), a.header)
		}
	}
	if a := l.do(http.MethodGet, "/v1/ledger/proofs/inclusion?index=0&size=7", "", "Accept", "text/plain"); a.status != http.StatusNotFound {
		t.Errorf("a proof as text at a size without a checkpoint: %d, want 404", a.status)
	}
	if a := l.do(http.MethodGet, path("/ledger/tile/0/000.p/SIZE"), ""); a.header.Get("Content-Type") != "application/octet-stream" ||
		!strings.Contains(a.header.Get("Cache-Control"), "immutable") || uint64(len(a.body)) != 32*size {
		t.Errorf("a tile has %d bytes and the headers %v", len(a.body), a.header)
	}
	if a := l.do(http.MethodPost, "/ledger/checkpoint", "{}"); a.status != http.StatusMethodNotAllowed {
		t.Errorf("POST of a checkpoint: %d", a.status)
	}
}

// httpTiles reads tiles over HTTP for package tlog.
type httpTiles struct {
	t    *testing.T
	base string
}

func (httpTiles) Height() int { return 8 }

func (h httpTiles) ReadTiles(tiles []tlog.Tile) (data [][]byte, err error) {
	for _, tile := range tiles {
		data = append(data, h.get(torchwood.TilePath(tile)))
	}
	return data, nil
}

func (httpTiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (h httpTiles) get(path string) []byte {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.base+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatalf("GET %s: %d, %v", path, resp.StatusCode, err)
	}
	return body
}

// The clients of others read the log over HTTP as any other of its kind.
func TestLedgerIsReadByOtherClients(t *testing.T) {
	t.Parallel()
	l := newWorld(t).furnish().publicLog()
	l.noise(30)
	l.publish()
	l.noise(600)
	l.publish()
	server := httptest.NewServer(l.handler)
	t.Cleanup(server.Close)
	tiles := httpTiles{t, server.URL + "/ledger/"}
	opened, err := note.Open(tiles.get("checkpoint"), note.VerifierList(verifierOf(t, strings.TrimSpace(string(tiles.get("key"))))))
	l.ok(err)
	c, err := torchwood.ParseCheckpoint(opened.Text)
	l.ok(err)

	read := tlog.TileHashReader(c.Tree, tiles)
	for _, index := range []int64{0, 255, 256, 511, 600, c.N - 1} {
		proof, err := tlog.ProveRecord(c.N, index, read)
		l.ok(err)
		var r record
		l.ok(json.Unmarshal([]byte(l.do(http.MethodGet, fmt.Sprintf("/v1/ledger/records/%d", index), "").body), &r))
		l.ok(tlog.CheckRecord(proof, c.N, c.Hash, index, tlog.RecordHash(r.Hash[:])))
	}

	fetcher, err := torchwood.NewTileFetcher(server.URL + "/ledger/")
	l.ok(err)
	client, err := torchwood.NewClient(fetcher, torchwood.WithTimeout(2*time.Minute))
	l.ok(err)
	var entries [][]byte
	for start := int64(0); start < c.N; start = int64(len(entries)) {
		for index, entry := range client.Entries(context.WithoutCancel(t.Context()), c.Tree, start) {
			if index != int64(len(entries)) {
				t.Fatalf("torchwood reads entry %d behind %d", index, len(entries))
			}
			entries = append(entries, bytes.Clone(entry))
		}
		l.ok(client.Err())
	}
	for i, r := range recordsIn(t, l.do(http.MethodGet, "/v1/ledger/records?limit=1000", "").body) {
		if !bytes.Equal(entries[i], r.Hash[:]) {
			t.Errorf("torchwood reads %x as entry %d, and the record has %s", entries[i], i, r.Hash)
		}
	}
	if int64(len(entries)) != c.N {
		t.Errorf("torchwood reads %d entries of %d", len(entries), c.N)
	}
}

func verifierOf(t *testing.T, vkey string) note.Verifier {
	t.Helper()
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What the database says must not be served against the tree, and the answer keeps
// its reasons to itself.
func TestTamperedLedgerIsNotServed(t *testing.T) {
	t.Parallel()
	l := newWorld(t).furnish().publicLog()
	l.publish()
	owner := pgtest.Owner(t, l.runner.Pool)
	for _, sql := range []string{
		"set session_replication_role = replica",
		"update tree_leaves set record = replace(encode(record, 'escape'), 'build:42', 'build:43')::bytea where index = (select max(index) from tree_leaves where stream = 'agent/build:42')",
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/v1/ledger/records", "/v1/ledger/streams/agent/build:42"} {
		a := l.do(http.MethodGet, path, "")
		if a.status != http.StatusInternalServerError || strings.Contains(a.body, "damaged") {
			t.Errorf("GET %s: %d %s", path, a.status, a.body)
		}
	}
	if !strings.Contains(l.logged.String(), "the public log is damaged: the record of leaf") {
		t.Errorf("logged was %s", l.logged)
	}
}

// What is erased is not shown, and everything about it can be proven as before.
func TestErasedReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t).furnish()
	l := w.publicLog()
	d := w.seal(w.grant(house), house)
	slot := d.tasks[0]
	d.send(slot, "forget me")
	d.reveal(slot, passed("forget me"))
	d.open()
	l.ok(w.runner.CatchUp(t.Context()))
	l.publish()
	path := root + "/shops/" + d.shop(slot)
	before, _ := w.get(path)["revealed"].(map[string]any)
	records := recordsIn(t, l.do(http.MethodGet, "/v1/ledger/streams/shop/"+d.shop(slot), "").body)

	d.step(slot, shop.Erase{Reason: "the owner asked for it"})
	l.ok(w.runner.CatchUp(t.Context()))
	l.publish()
	after, _ := w.get(path)["revealed"].(map[string]any)
	erased, _ := after["erased"].(map[string]any)
	if before["session"] == nil || after["session"] != nil {
		t.Errorf("before it was erased the session was %v, and after %v", before["session"], after["session"])
	}
	if before["reply"] == nil || after["reply"] != nil || before["erased"] != nil || erased["reason"] != "the owner asked for it" || erased["at"] == "" {
		t.Errorf("before it was erased %v, and after %v", before["reply"], after)
	}
	if diff := cmp.Diff(before["event"], after["event"]); diff != "" {
		t.Errorf("the event has changed:\n%s", diff)
	}
	again := recordsIn(t, l.do(http.MethodGet, "/v1/ledger/streams/shop/"+d.shop(slot), "").body)
	if diff := cmp.Diff(records, again[:len(records)], cmp.AllowUnexported(record{})); diff != "" || len(again) != len(records)+1 {
		t.Errorf("%d records have become %d:\n%s", len(records), len(again), diff)
	}
	for _, r := range again {
		r.check(t)
		var p struct {
			Size uint64
			Root domain.Hash
			Path []domain.Hash
		}
		l.ok(json.Unmarshal([]byte(l.do(http.MethodGet, fmt.Sprintf("/v1/ledger/proofs/inclusion?index=%d", r.Index), "").body), &p))
		l.ok(merkle.VerifyPath(r.Hash, r.Index, p.Size, p.Path, p.Root))
	}
}
