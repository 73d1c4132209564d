package publiclog_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/projections/publiclog"
)

// A witness is one of C2SP tlog-witness, on the signer and the parser of torchwood.
type witness struct {
	signer *torchwood.CosignatureSigner
	url    string

	mu    sync.Mutex
	log   note.Verifier
	last  tlog.Tree
	spoil func(status int, answer string) (int, string) // changes answers
	asked int
}

func newWitness(t *testing.T, name, vkey string) *witness {
	t.Helper()
	signer, err := torchwood.NewCosignatureSigner(name, ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%-32s", name))))
	if err != nil {
		t.Fatal(err)
	}
	s := &witness{signer: signer, log: policy(t, vkey).Log}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL + "/w/"
	return s
}

// listed is the line of w in a list of witnesses.
func (w *witness) listed() string { return w.signer.Verifier().String() + " " + w.url }

func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	status, answer := http.StatusNotFound, ""
	if r.Method == http.MethodPost && r.URL.Path == "/w/add-checkpoint" {
		status, answer = w.add(string(body))
	}
	if w.spoil != nil {
		status, answer = w.spoil(status, answer)
	}
	if status == http.StatusConflict {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
	}
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, answer)
}

func (w *witness) add(body string) (status int, answer string) {
	head, signed, ok := strings.Cut(body, "\n\n")
	lines := strings.Split(head, "\n")
	old, err := strconv.ParseInt(strings.TrimPrefix(lines[0], "old "), 10, 64)
	if !ok || err != nil || !strings.HasPrefix(lines[0], "old ") {
		return http.StatusBadRequest, "malformed"
	}
	var proof tlog.TreeProof
	for _, l := range lines[1:] {
		h, err := tlog.ParseHash(l)
		if err != nil {
			return http.StatusBadRequest, "malformed"
		}
		proof = append(proof, h)
	}
	n, err := note.Open([]byte(signed), note.VerifierList(w.log))
	if err != nil {
		return http.StatusForbidden, "not signed by the log"
	}
	c, err := torchwood.ParseCheckpoint(n.Text)
	switch {
	case err != nil || old > c.N:
		return http.StatusBadRequest, "malformed"
	case old != w.last.N, old == c.N && c.Hash != w.last.Hash:
		return http.StatusConflict, fmt.Sprintf("%d\n", w.last.N)
	case old == 0 && len(proof) > 0, old > 0 && old < c.N && tlog.CheckTree(proof, c.N, c.Hash, w.last.N, w.last.Hash) != nil:
		return http.StatusUnprocessableEntity, "does not continue"
	}
	w.last = c.Tree
	out, err := note.Sign(&note.Note{Text: n.Text}, w.signer)
	if err != nil {
		return http.StatusInternalServerError, ""
	}
	return http.StatusOK, string(out[strings.Index(string(out), "\n\n")+2:])
}

// witnessed gives the publisher of w some witnesses.
func (w *world) witnessed(t *testing.T, quorum int, list ...*witness) {
	t.Helper()
	text := "# who watches us\n\n"
	for _, s := range list {
		text += s.listed() + "\n"
	}
	var err error
	w.publisher.Witnesses, w.publisher.Quorum, err = publiclog.ParseWitnesses(strings.NewReader(fmt.Sprint(text, "quorum ", quorum, "\n")))
	if err != nil {
		t.Fatal(err)
	}
}

// cosigned returns the names of the witnesses that cosigned the latest checkpoint.
func (w *world) cosigned(list ...*witness) (names []string) {
	w.tb.Helper()
	p := policy(w.tb, w.vkey)
	for _, s := range list {
		p.Witnesses = append(p.Witnesses, s.signer.Verifier()) // that of torchwood
	}
	_, lines, err := p.Open(w.head().Note)
	if err != nil {
		w.tb.Fatal(err)
	}
	for _, l := range lines {
		names = append(names, strings.Fields(l)[1])
	}
	return names
}

func TestWitnessesCosign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := newWitness(t, "witness.example/1", w.vkey), newWitness(t, "witness.example/2", w.vkey)
	w.witnessed(t, 2, one, two)
	for _, n := range []int{1, 10, 300, 3} {
		w.grow(n)
		if names := w.cosigned(one, two); len(names) != 2 {
			t.Fatalf("cosigned by %v, want both", names)
		}
	}
	// A new process does not know what the witnesses have seen, and is told.
	asked := one.asked
	w.publisher = &publiclog.Publisher{Pool: w.pool, Signer: w.publisher.Signer, Every: every, Now: w.clock}
	w.witnessed(t, 2, one, two)
	w.grow(50)
	if names := w.cosigned(one, two); len(names) != 2 || one.asked != asked+2 {
		t.Errorf("cosigned by %v after %d questions, want both after a second one", names, one.asked-asked)
	}
	// A witness that lost its answer to us has seen this very checkpoint.
	w.add(30)
	w.integrate()
	lost := true
	one.spoil = func(status int, answer string) (int, string) {
		if lost {
			lost = false
			return http.StatusBadGateway, ""
		}
		return status, answer
	}
	w.pass(every)
	if err := w.publisher.Publish(t.Context()); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("Publish with a lost answer = %v, want ErrUnavailable", err)
	}
	_, signed, published := w.sizes()
	if signed == published {
		t.Error("published without the quorum")
	}
	if err := w.publisher.Publish(t.Context()); err != nil {
		t.Errorf("Publish a moment later = %v; it must not ask again so soon", err)
	}
	w.pass(every / 10)
	if err := w.publisher.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := w.head(); h.Size != signed || len(w.cosigned(one, two)) != 2 {
		t.Errorf("%d leaves are published, want the %d that were signed, with both cosignatures", h.Size, signed)
	}
}

func TestQuorum(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good, dead := newWitness(t, "witness.example/good", w.vkey), newWitness(t, "witness.example/dead", w.vkey)
	dead.spoil = func(int, string) (int, string) { return http.StatusInternalServerError, "out of order" }
	for _, tt := range []struct {
		quorum    int
		list      []*witness
		published bool
		cosigned  int
	}{
		{0, nil, true, 0},
		{0, []*witness{dead}, true, 0},
		{0, []*witness{dead, good}, true, 1},
		{1, []*witness{dead, good}, true, 1},
		{1, []*witness{dead}, false, 0},
		{2, []*witness{dead, good}, false, 0},
		{1, []*witness{good}, true, 1}, // and all that waited is covered
	} {
		w.publisher = &publiclog.Publisher{Pool: w.pool, Signer: w.publisher.Signer, Every: every, Now: w.clock}
		w.witnessed(t, tt.quorum, tt.list...)
		w.add(5)
		w.integrate()
		w.pass(every)
		err := w.publisher.Publish(t.Context())
		if tt.published != (err == nil) {
			t.Errorf("quorum %d of %d: Publish = %v", tt.quorum, len(tt.list), err)
		}
		if !tt.published && !strings.Contains(err.Error(), "witness.example/dead") {
			t.Errorf("quorum %d of %d: Publish = %v, want the witness named", tt.quorum, len(tt.list), err)
		}
		tree, signed, published := w.sizes()
		if signed != tree || tt.published != (published == tree) {
			t.Errorf("quorum %d of %d: %d leaves, %d signed, %d published", tt.quorum, len(tt.list), tree, signed, published)
		}
		if tt.published && len(w.cosigned(good, dead)) != tt.cosigned {
			t.Errorf("quorum %d of %d: cosigned by %v, want %d", tt.quorum, len(tt.list), w.cosigned(good, dead), tt.cosigned)
		}
	}
}

func TestAnswersOfWitnesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newWitness(t, "witness.example/1", w.vkey)
	w.witnessed(t, 1, s)
	w.grow(10)
	before := w.head()
	stranger := newWitness(t, "witness.example/2", w.vkey)
	for name, spoil := range map[string]func(status int, answer string) (int, string){
		"no signature":        func(int, string) (int, string) { return http.StatusOK, "" },
		"nonsense":            func(int, string) (int, string) { return http.StatusOK, "— witness.example/1 AAAA\n" },
		"signature of others": func(int, string) (int, string) { return http.StatusOK, other(stranger, before.Note) },
		"of another text":     func(int, string) (int, string) { return http.StatusOK, other(s, before.Note) },
		"a new text":          func(_ int, a string) (int, string) { return http.StatusOK, "\n\nx\n\n" + a },
		"endless":             func(int, string) (int, string) { return http.StatusOK, strings.Repeat("x", 1<<20) },
		"no size":             func(int, string) (int, string) { return http.StatusConflict, "many" },
		"negative size":       func(int, string) (int, string) { return http.StatusConflict, "-1" },
		"huge size":           func(int, string) (int, string) { return http.StatusConflict, "18446744073709551615" },
		"size always other": func() func(int, string) (int, string) {
			n := 0
			return func(int, string) (int, string) { n++; return http.StatusConflict, strconv.Itoa(n % 3) }
		}(),
		"refusal": func(int, string) (int, string) { return http.StatusForbidden, "no" },
	} {
		s.mu.Lock()
		s.spoil = spoil
		s.mu.Unlock()
		w.add(3)
		w.integrate()
		w.pass(every)
		if err := w.publisher.Publish(t.Context()); !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("%s: Publish = %v, want ErrUnavailable", name, err)
		}
		if h := w.head(); h.Size != before.Size {
			t.Fatalf("%s: something was published", name)
		}
	}
	// A witness that has seen more than we have tells of a rollback.
	s.spoil = func(int, string) (int, string) { return http.StatusConflict, "5000" }
	w.pass(every)
	if err := w.publisher.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "seen 5000 leaves") {
		t.Errorf("Publish = %v, want that the witness has seen more", err)
	}
	s.spoil = nil
	w.pass(every)
	if err := w.publisher.Publish(t.Context()); err != nil {
		t.Error(err)
	}
}

// other returns the line of s under another checkpoint.
func other(s *witness, signed []byte) string {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	out, err := note.Sign(&note.Note{Text: text + "\n"}, s.signer)
	if err != nil {
		panic(err)
	}
	_, line, _ := strings.Cut(string(out), "\n\n")
	return line
}

// A log that was begun anew under the same key, with another history, finds no witness.
func TestRewrittenLogIsNotCosigned(t *testing.T) {
	t.Parallel()
	w, fork := newWorld(t), newWorld(t)
	s := newWitness(t, "witness.example/1", w.vkey)
	w.witnessed(t, 1, s)
	w.grow(30)
	fork.witnessed(t, 1, s)
	fork.n = 1
	fork.add(300)
	fork.integrate()
	fork.pass(every)
	if err := fork.publisher.Publish(t.Context()); !errors.Is(err, domain.ErrUnavailable) || !strings.Contains(err.Error(), "422") {
		t.Errorf("Publish of another history = %v, want the refusal of the witness", err)
	}
	if _, err := fork.reader.Head(t.Context()); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("Head of it = %v, want none", err)
	}
}

func TestParseWitnesses(t *testing.T) {
	t.Parallel()
	_, vkey := newKey(t, 1)
	one := newWitness(t, "witness.example/1", vkey)
	two := newWitness(t, "witness.example/2", vkey)
	for _, tt := range []struct {
		name, text   string
		list, quorum int
		says         string
	}{
		{"nothing", "", 0, 0, ""},
		{"comments", "# a\n\n  # b\n", 0, 0, ""},
		{"one", one.listed(), 1, 0, ""},
		{"two of two", "quorum 2\n" + one.listed() + "\n\t" + two.listed() + "\r\n", 2, 2, ""},
		{"more than there are", one.listed() + "\nquorum 2", 0, 0, "2 witnesses must cosign, and 1 are listed"},
		{"the same twice", one.listed() + "\n" + one.listed(), 0, 0, "line 2"},
		{"two quorums", "quorum 0\nquorum 0", 0, 0, "line 2"},
		{"quorum below none", "quorum -1", 0, 0, "line 1"},
		{"key without a URL", one.signer.Verifier().String(), 0, 0, "line 1"},
		{"URL of another sort", one.signer.Verifier().String() + " ftp://x", 0, 0, "http"},
		{"key of a log", vkey + " https://x", 0, 0, "algorithm 1"},
		{"damaged key", strings.Replace(one.listed(), "/1+", "/3+", 1), 0, 0, "damaged"},
	} {
		list, quorum, err := publiclog.ParseWitnesses(strings.NewReader(tt.text))
		if tt.says != "" {
			if !errors.Is(err, domain.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: ParseWitnesses = %v, want ErrInvalid with %q", tt.name, err, tt.says)
			}
			continue
		}
		if err != nil || len(list) != tt.list || quorum != tt.quorum {
			t.Errorf("%s: ParseWitnesses = %d witnesses, quorum %d, %v; want %d and %d", tt.name, len(list), quorum, err, tt.list, tt.quorum)
		}
	}
}
