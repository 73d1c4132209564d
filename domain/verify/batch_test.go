package verify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/verify"
)

func commitRecord(b byte) []byte {
	return []byte(fmt.Sprintf(`{"data":{"commit":"%s","consent":"cns_a","day":1,"slot":2},"type":"shop.committed.v1"}`, domain.Hash{b}))
}

// aBatch returns three commits in five records from 10 on, and the batch of them.
func aBatch(t *testing.T) (records [][]byte, body []byte) {
	t.Helper()
	records = [][]byte{
		commitRecord(1), []byte(`{"data":{"x":1},"type":"plan.sealed.v1"}`), commitRecord(2), commitRecord(1),
		[]byte(fmt.Sprintf(`{"data":{"root":"%s"},"type":"seal.sealed.v1"}`, domain.Hash{3})),
	}
	open := []batch.Open{{Commit: domain.Hash{1}, Index: 10}, {Commit: domain.Hash{2}, Index: 12}, {Commit: domain.Hash{3}, Index: 14}}
	before := &batch.State{Sealed: &batch.Sealed{Batch: 4, To: 10, Root: domain.Hash{9}}}
	s, _, err := batch.Close(before, 84532, batch.Word{8}, open, 20, domain.Hash{7})
	if err != nil {
		t.Fatal(err)
	}
	if body, err = json.Marshal(s); err != nil {
		t.Fatal(err)
	}
	return records, body
}

func TestBatchMembers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(records [][]byte, body string) ([][]byte, string)
		want   string // in what is wrong; "" if nothing is
	}{
		{"as it is", func(r [][]byte, b string) ([][]byte, string) { return r, b }, ""},
		{"a record short", func(r [][]byte, b string) ([][]byte, string) { return r[:4], b }, "shows 4 records"},
		{"no records", func(_ [][]byte, b string) ([][]byte, string) { return nil, b }, "shows 0 records"},
		{"another commit", func(r [][]byte, b string) ([][]byte, string) { r[2] = commitRecord(5); return r, b }, "and not"},
		{"another order", func(r [][]byte, b string) ([][]byte, string) { r[0], r[2] = r[2], r[0]; return r, b }, "and not"},
		{"a commit left out", func(r [][]byte, b string) ([][]byte, string) { r[2] = r[1]; return r, b }, "hold 2 commits"},
		{"a commit put in", func(r [][]byte, b string) ([][]byte, string) { r[1] = commitRecord(5); return r, b }, "hold 4 commits"},
		{"a record that is none", func(r [][]byte, b string) ([][]byte, string) { r[1] = []byte(`[`); return r, b }, "cannot be read"},
		{"another count", func(r [][]byte, b string) ([][]byte, string) {
			return r, strings.Replace(b, `"count":3`, `"count":2`, 1)
		}, "hold 3 commits"},
		{"another number", func(r [][]byte, b string) ([][]byte, string) {
			return r, strings.Replace(b, `"batch":5`, `"batch":6`, 1)
		}, "and not"},
		{"another chain", func(r [][]byte, b string) ([][]byte, string) { return r, strings.Replace(b, `84532`, `10`, 1) }, "and not"},
	} {
		records, body := aBatch(t)
		records, text := tt.change(records, string(body))
		p, err := verify.ParseBatch([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := p.Members(records)
		if (got.Status == verify.Pass) != (tt.want == "") || !strings.Contains(got.Detail, tt.want) {
			t.Errorf("%s: Members = %+v, want a detail with %q", tt.name, got, tt.want)
		}
	}
}

func TestParseBatchRefuses(t *testing.T) {
	t.Parallel()
	_, body := aBatch(t)
	for _, tt := range [][2]string{
		{`"batch":5`, `"batch":0`},
		{`"count":3`, `"count":0`},
		{`"count":3`, `"count":100001`},
		{`"count":3`, `"count":-1`},
		{`"to":15`, `"to":10`},
		{`"chain":84532`, `"chain":"84532"`},
		{`"root":"`, `"root":"x`},
		{`{`, `[`},
	} {
		text := strings.Replace(string(body), tt[0], tt[1], 1)
		if text == string(body) {
			t.Fatalf("%s is not in %s", tt[0], body)
		}
		if _, err := verify.ParseBatch([]byte(text)); !errors.Is(err, domain.ErrInvalid) {
			t.Errorf("ParseBatch with %s = %v, want ErrInvalid", tt[1], err)
		}
	}
}

func FuzzParseBatch(f *testing.F) {
	f.Add([]byte(`{"batch":1,"chain":1,"count":1,"from":0,"to":1,"attestation":{"uid":"0x00"}}`), []byte(`{"type":"shop.committed.v1","data":{"commit":"00"}}`))
	f.Fuzz(func(_ *testing.T, body, record []byte) {
		if p, err := verify.ParseBatch(body); err == nil {
			p.Members([][]byte{record})
		}
	})
}
