package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/karatum/mystery/domain"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"karatum-verify": main})
}

// The scripts find in their directory, line by line: given.jsonl and then.jsonl,
// the foreign vectors of package verify; and opened.jsonl, the same rows with the
// opened plan key in place of the operator's secret; tampered.jsonl, the first of
// these with one fault in each element of its path and with another day, four
// lines in all; and tampered.json, the first line of it.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			return writeVectors(env.WorkDir)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
		},
	})
}

// exits runs a command, which must end with the code given first.
//
//	exits 3 karatum-verify derive day.json
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command [args…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if exit, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		code = fmt.Sprint(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

type members map[string]json.RawMessage

func writeVectors(dir string) error {
	data, err := os.ReadFile("../../domain/verify/testdata/plan_vectors.json")
	if err != nil {
		return err
	}
	var vectors []struct {
		Given, Then json.RawMessage
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		return err
	}
	var given, opened, then, tampered bytes.Buffer
	for i, v := range vectors {
		row, err := openedRow(v.Given, v.Then)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := tamper(&tampered, row); err != nil {
				return err
			}
		}
		err = errors.Join(json.Compact(&given, v.Given), json.Compact(&then, v.Then), json.NewEncoder(&opened).Encode(row))
		if err != nil {
			return err
		}
		given.WriteByte('\n')
		then.WriteByte('\n')
	}
	first, _, _ := bytes.Cut(tampered.Bytes(), []byte("\n"))
	for name, content := range map[string][]byte{
		"given.jsonl":    given.Bytes(),
		"opened.jsonl":   opened.Bytes(),
		"then.jsonl":     then.Bytes(),
		"tampered.jsonl": tampered.Bytes(),
		"tampered.json":  first,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func openedRow(given, then json.RawMessage) (row members, err error) {
	var t members
	if err := errors.Join(json.Unmarshal(given, &row), json.Unmarshal(then, &t)); err != nil {
		return nil, err
	}
	delete(row, "operator_secret")
	for _, name := range []string{"plan_key", "plan_key_path", "plan_key_root"} {
		row[name] = t[name]
	}
	return row, nil
}

func tamper(w io.Writer, row members) error {
	row = maps.Clone(row)
	delete(row, "sample")
	var path []domain.Hash
	var day int
	if err := errors.Join(json.Unmarshal(row["plan_key_path"], &path), json.Unmarshal(row["day"], &day)); err != nil {
		return err
	}
	for i := range path {
		path[i][i] ^= 1
		bad, err := json.Marshal(path)
		if err != nil {
			return err
		}
		path[i][i] ^= 1
		other := maps.Clone(row)
		other["plan_key_path"] = bad
		if err := json.NewEncoder(w).Encode(other); err != nil {
			return err
		}
	}
	row["day"] = json.RawMessage(strconv.Itoa(day + 1))
	return json.NewEncoder(w).Encode(row)
}

// Some bodies are long, and so are the lines that hold them.
func TestLongLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeVectors(dir); err != nil {
		t.Fatal(err)
	}
	given, err := os.ReadFile(filepath.Join(dir, "given.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(given), "\n")
	long := strings.Replace(first, `"body":""`, `"body":"`+strings.Repeat("x", 3<<19)+`"`, 1)
	if len(long) < 3<<19 {
		t.Fatal("the first vector has no empty body")
	}
	var stdout bytes.Buffer
	in := strings.NewReader(long + "\n" + strings.Repeat("[", 2<<20) + "\n" + first) // the last line has no end
	code := run(t.Context(), []string{"derive", "--jsonl"}, in, &stdout, t.Output())
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	if code != exitError || len(lines) != 3 {
		t.Fatalf("exit code %d after %d lines, want %d after 3", code, len(lines), exitError)
	}
	for i, want := range []string{`{"consent_id":"cns_evmwdbivcm7gsejx5jq2"`, `{"error":`, `{"consent_id":"cns_evmwdbivcm7gsejx5jq2"`} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d = %.80s, want %s…", i+1, lines[i], want)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeVectors(dir); err != nil {
		t.Fatal(err)
	}
	args := []string{"derive", "--jsonl", filepath.Join(dir, "given.jsonl")}
	if code := run(t.Context(), args, nil, brokenPipe{}, t.Output()); code != exitError {
		t.Errorf("exit code %d, want %d", code, exitError)
	}
}
