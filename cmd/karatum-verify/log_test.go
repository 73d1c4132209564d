package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/checkpoint"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/shop"
)

// A servedLog is a public log as the service serves one, in the hands of somebody who
// may show whatever he likes.
type servedLog struct {
	t       *testing.T
	signer  note.Signer
	vkey    string
	items   []map[string]any
	entries []domain.Hash
	size    int // that is signed
	cosign  []note.Signer
	edit    func(path, answer string) string
	url     string
}

func serveLog(t *testing.T, seed byte) *servedLog {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.NewChaCha8([32]byte{seed}), "karatum.com/ledger")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	l := &servedLog{t: t, signer: signer, vkey: vkey, edit: func(_, answer string) string { return answer }}
	server := httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

// grow adds records to the log and signs all of it: pauses, and now and then a slot whose
// reveal opens a sealed record.
func (l *servedLog) grow(n int, word string) {
	l.t.Helper()
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for range n {
		i := len(l.items)
		if i%10 == 9 {
			stream := shop.StreamOf(fmt.Sprintf("shp_%d", i))
			committed := l.record(stream, at, domain.Hash{}, 1, shop.Committed{Slot: i % 24})
			sealed := l.record(stream, at, committed.Hash, 2, shop.Missed{Reason: shop.Paused})
			l.add(committed, domain.Hash{})
			l.add(l.record(stream, at, sealed.Hash, 3, shop.Revealed{SourceAddresses: []string{}, Records: []ledger.Record{sealed}}), sealed.Hash)
			continue
		}
		l.add(l.record(ledger.Stream(fmt.Sprintf("noise/%d", i)), at, domain.Hash{}, 1, programme.Paused{Reason: word}), domain.Hash{})
	}
	l.size = len(l.items)
}

func (l *servedLog) record(s ledger.Stream, at time.Time, prev domain.Hash, version uint64, e domain.Event) ledger.Record {
	l.t.Helper()
	records, err := ledger.Prepare(s, ledger.Meta{Actor: "test", Command: strconv.FormatUint(version, 10)}, e)
	if err != nil {
		l.t.Fatal(err)
	}
	records[0].Link(prev, version, at)
	return records[0]
}

func (l *servedLog) add(r ledger.Record, prev domain.Hash) {
	l.items = append(l.items, map[string]any{
		"index": len(l.items), "prevHash": prev, "hash": r.Hash, "leafHash": merkle.LeafHash(r.Hash[:]), "record": r,
	})
	l.entries = append(l.entries, r.Hash)
}

func (l *servedLog) checkpoint() string {
	c := checkpoint.Checkpoint{Origin: l.signer.Name(), Size: uint64(l.size), Root: merkle.Root(l.entries[:l.size])}
	signed, err := note.Sign(&note.Note{Text: c.Text()}, append([]note.Signer{l.signer}, l.cosign...)...)
	if err != nil {
		panic(err)
	}
	return string(signed)
}

func (l *servedLog) serve(w http.ResponseWriter, r *http.Request) {
	number := func(name string) int { n, _ := strconv.Atoi(r.URL.Query().Get(name)); return n }
	answer := ""
	switch path := r.URL.Path; {
	case path == "/ledger/key":
		answer = l.vkey + "\n"
	case path == "/ledger/checkpoint":
		answer = l.checkpoint()
	case strings.HasPrefix(path, "/ledger/tile/entries/"):
		var n int
		_, _ = fmt.Sscanf(strings.TrimPrefix(path, "/ledger/tile/entries/"), "%d", &n)
		for _, e := range l.entries[256*n : min(256*(n+1), l.size)] {
			answer += "\x00\x20" + string(e[:])
		}
	case path == "/v1/ledger/records":
		from := number("from")
		data, err := json.Marshal(map[string]any{"items": l.items[from : from+number("limit")]})
		if err != nil {
			panic(err)
		}
		answer = string(data)
	case path == "/v1/ledger/proofs/consistency":
		data, err := json.Marshal(map[string]any{"path": consistency(l.entries[:number("to")], number("from"))})
		if err != nil {
			panic(err)
		}
		answer = string(data)
	}
	_, _ = w.Write([]byte(l.edit(r.URL.Path, answer)))
}

// consistency returns PROOF of RFC 6962, section 2.1.2.
func consistency(leaves []domain.Hash, m int) []domain.Hash {
	var prove func(leaves []domain.Hash, m int, known bool) []domain.Hash
	prove = func(leaves []domain.Hash, m int, known bool) []domain.Hash {
		if m == len(leaves) {
			if known {
				return nil
			}
			return []domain.Hash{merkle.Root(leaves)}
		}
		k := 1
		for 2*k < len(leaves) {
			k *= 2
		}
		if m <= k {
			return append(prove(leaves[:k], m, known), merkle.Root(leaves[k:]))
		}
		return append(prove(leaves[k:], m-k, false), merkle.Root(leaves[:k]))
	}
	return prove(leaves, m, true)
}

// look runs log on what is served and returns what it says.
func (l *servedLog) look(state string, args ...string) (code int, said string) {
	l.t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(l.t.Context(), append([]string{"log", "--state", state, l.url}, args...), nil, &stdout, &stderr)
	return code, stdout.String() + stderr.String()
}

func TestLogGrows(t *testing.T) {
	t.Parallel()
	l := serveLog(t, 1)
	state := filepath.Join(t.TempDir(), "below", "log.json")
	for _, n := range []int{20, 0, 300, 1} {
		l.grow(n, "noise")
		if code, said := l.look(state); code != exitOK || !strings.Contains(said, fmt.Sprintf("\n%d records of", l.size)) {
			t.Fatalf("with %d records it says %d: %s", l.size, code, said)
		}
	}
	var report logReport
	var stdout bytes.Buffer
	if code := run(t.Context(), []string{"log", "--json", "--state", state, l.url + "/"}, nil, &stdout, t.Output()); code != exitOK {
		t.Fatalf("log --json = %d", code)
	}
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil || report.Verdict != "ok" || report.Seen != uint64(l.size) || report.Key != l.vkey {
		t.Errorf("log --json says %s (%v)", &stdout, err)
	}
}

// Whatever is wrong with a log is exit code 3, and what was seen stays kept.
func TestLogLies(t *testing.T) {
	t.Parallel()
	swap := func(of, a, b string) func(*servedLog) {
		return func(l *servedLog) {
			l.edit = func(path, answer string) string {
				if strings.HasPrefix(path, of) {
					return strings.Replace(answer, a, b, 1)
				}
				return answer
			}
		}
	}
	for _, tt := range []struct {
		name string
		lie  func(*servedLog)
		says string
	}{
		{"set back", func(l *servedLog) { l.size -= 5 }, "set back"},
		{"rewritten at the same size", func(l *servedLog) { l.items, l.entries = nil, nil; l.grow(40, "other") }, "two roots"},
		{"rewritten and grown", func(l *servedLog) { l.items, l.entries = nil, nil; l.grow(90, "other") }, "does not prove"},
		{"rewritten, with the proof of another", func(l *servedLog) {
			honest := append([]domain.Hash(nil), l.entries...)
			l.grow(50, "noise")
			proof := consistency(l.entries, len(honest))
			l.items[3]["record"] = l.items[4]["record"]
			data, _ := json.Marshal(map[string]any{"path": proof})
			l.edit = func(path, answer string) string {
				if path == "/v1/ledger/proofs/consistency" {
					return string(data)
				}
				return answer
			}
		}, "record 3 of the log"},
		{"another word", swap("/v1/ledger/records", "noise", "voice"), "its bytes do not have the hash"},
		{"another index", swap("/v1/ledger/records", `"index":7`, `"index":8`), "said to be record 8"},
		{"a record less", swap("/v1/ledger/records", `{"hash"`, `{"mash"`), "cannot be read"},
		{"no records", swap("/v1/ledger/records", `"items"`, `"others"`), "does not show"},
		{"another entry", swap("/ledger/tile/entries/", "\x00\x20", "\x00\x21"), "damaged"},
		{"an entry more", func(l *servedLog) {
			l.edit = func(path, answer string) string {
				if strings.HasPrefix(path, "/ledger/tile/") {
					return answer + "\x00"
				}
				return answer
			}
		}, "more than it should"},
		{"another signature", func(l *servedLog) { l.signer = serveLog(l.t, 2).signer }, "not signed by"},
		{"a proof that is none", swap("/v1/ledger/proofs", `"path":[`, `"path":[5,`), "cannot be read"},
		{"a sealed record that nothing opens", func(l *servedLog) {
			r := l.record("noise/gap", time.Time{}, domain.Hash{1}, 2, programme.Paused{Reason: "x"})
			l.add(r, domain.Hash{1})
			l.size++
		}, "nothing opens"},
		{"a version twice", func(l *servedLog) {
			r := l.record("noise/0", time.Time{}, domain.Hash{}, 1, programme.Paused{Reason: "x"})
			l.add(r, domain.Hash{})
			l.size++
		}, "stands behind"},
		{"a chain that is broken", func(l *servedLog) {
			r := l.record("noise/0", time.Time{}, domain.Hash{7}, 2, programme.Paused{Reason: "x"})
			l.add(r, domain.Hash{7})
			l.size++
		}, "do not lead from version 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := serveLog(t, 1)
			l.t = t
			state := filepath.Join(t.TempDir(), "log.json")
			l.grow(40, "noise")
			if code, said := l.look(state); code != exitOK {
				t.Fatalf("before, it says %d: %s", code, said)
			}
			keeps, err := os.ReadFile(state)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(tt.name, "a proof") {
				l.grow(9, "noise")
			}
			tt.lie(l)
			if code, said := l.look(state); code != exitFailed || !strings.Contains(said, tt.says) {
				t.Errorf("it says %d: %s, want %q in it", code, said, tt.says)
			}
			if now, err := os.ReadFile(state); err != nil || !bytes.Equal(now, keeps) {
				t.Errorf("what was kept has changed to %s (%v)", now, err)
			}
			if code, said := l.look(state, "--json"); code != exitFailed || !strings.Contains(said, `"verdict": "fail"`) {
				t.Errorf("as JSON it says %d: %s", code, said)
			}
		})
	}
}

func TestLogKeysAndWitnesses(t *testing.T) {
	t.Parallel()
	l := serveLog(t, 1)
	l.grow(20, "noise")
	other := serveLog(t, 2).vkey
	dir := t.TempDir()
	const witness = "witness.example+8b7a4f2d+BH"
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"the key that it has", []string{"--key", l.vkey}, exitOK, "ok"},
		{"another key", []string{"--key", other}, exitFailed, "had the key"},
		{"no key at all", []string{"--key", "x"}, exitFailed, "had the key"},
		{"a witness that is none", []string{"--witness", witness}, exitError, "key of a witness"},
		{"a quorum of nobody", []string{"--quorum", "1"}, exitFailed, "0 witnesses have cosigned"},
	} {
		if code, said := l.look(filepath.Join(dir, "log.json"), tt.args...); code != tt.code || !strings.Contains(said, tt.says) {
			t.Errorf("%s: it says %d: %s, want %d and %q in it", tt.name, code, said, tt.code, tt.says)
		}
	}
	if code, said := l.look(filepath.Join(dir, "fresh.json"), "--key", other); code != exitFailed {
		t.Errorf("another key from the beginning: it says %d: %s", code, said)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := l.look(filepath.Join(dir, "bad.json")); code != exitError || !strings.Contains(said, "begin anew") {
		t.Errorf("with a damaged state: it says %d: %s", code, said)
	}
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"log", "karatum.com"}, nil, t.Output(), &stderr); code != exitUsage {
		t.Errorf("log without a scheme = %d: %s", code, &stderr)
	}
}

// cosigner returns a witness, on the signer of torchwood, and its vkey.
func cosigner(t *testing.T, name string, seed byte) (note.Signer, string) {
	t.Helper()
	s, err := torchwood.NewCosignatureSigner(name, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Verifier().String()
}

// Whoever trusts witnesses takes the checkpoint only if enough of them, by the keys that he has
// of them, have cosigned this one.
func TestLogCosigned(t *testing.T) {
	t.Parallel()
	l := serveLog(t, 1)
	one, oneKey := cosigner(t, "one.example", 1)
	two, twoKey := cosigner(t, "two.example", 2)
	_, threeKey := cosigner(t, "three.example", 3)
	_, otherKey := cosigner(t, "one.example", 4)
	l.cosign = []note.Signer{one, two}
	l.grow(20, "noise")
	line := func(text, of string) string {
		t.Helper()
		_, rest, ok := strings.Cut(text, "\n— "+of+" ")
		if !ok {
			t.Fatalf("%s has not cosigned:\n%s", of, text)
		}
		signature, _, _ := strings.Cut(rest, "\n")
		return signature
	}
	old := line(l.checkpoint(), "one.example")
	l.grow(10, "noise")
	replayed := func(path, answer string) string {
		if path != "/ledger/checkpoint" {
			return answer
		}
		return strings.Replace(answer, line(answer, "one.example"), old, 1)
	}
	honest := l.edit
	for _, tt := range []struct {
		name string
		edit func(path, answer string) string
		args []string
		code int
		says string
	}{
		{"by the one that is trusted", honest, []string{"--witness", oneKey}, exitOK, "1 cosignatures"},
		{"by both", honest, []string{"--witness", oneKey, "--witness", twoKey}, exitOK, "2 cosignatures"},
		{"by two of three", honest, []string{"--witness", oneKey, "--witness", twoKey, "--witness", threeKey, "--quorum", "2"}, exitOK, "2 cosignatures"},
		{"by two of three that all must", honest, []string{"--witness", oneKey, "--witness", twoKey, "--witness", threeKey}, exitFailed, "2 witnesses have cosigned"},
		{"by one of two", honest, []string{"--witness", threeKey, "--witness", twoKey, "--quorum", "2"}, exitFailed, "1 witnesses have cosigned"},
		{"with another key of that name", honest, []string{"--witness", otherKey}, exitFailed, "0 witnesses have cosigned"},
		{"by one twice", honest, []string{"--witness", oneKey, "--witness", oneKey}, exitError, "named twice"},
		{"a checkpoint of before", replayed, []string{"--witness", oneKey}, exitFailed, "one.example"},
	} {
		l.edit = tt.edit
		if code, said := l.look(filepath.Join(t.TempDir(), "log.json"), tt.args...); code != tt.code || !strings.Contains(said, tt.says) {
			t.Errorf("%s: it says %d: %s, want %d and %q in it", tt.name, code, said, tt.code, tt.says)
		}
	}
}
