// Package doctest runs what the documents of the repository tell people to type. It is for
// tests alone.
package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block matches a fenced block that is to be run, with its tag and its text.
var block = regexp.MustCompile("(?ms)^```sh runnable=(\\w+)\n(.*?)^```$")

// Run runs the blocks of a document below docs/ that have a tag, in their order and as one
// script, in a directory of their own. env is all of its environment but PATH, which begins
// with programs: commands by name, and what is run for each. It returns what was printed.
func Run(t *testing.T, document, tag string, env []string, programs map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", document)) //nolint:gosec // of this repository
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString("set -euxo pipefail\n")
	blocks := 0
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		if m[1] == tag {
			script.WriteString(m[2])
			blocks++
		}
	}
	if blocks == 0 {
		t.Fatalf("%s has no block that is runnable as %s", document, tag)
	}
	bin, dir := t.TempDir(), t.TempDir()
	for name, line := range programs {
		wrapper := "#!/bin/sh\n" + line + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(wrapper), 0o755); err != nil { //nolint:gosec // it is to be run
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "bash", "-c", script.String()) //nolint:gosec // of this repository
	c.Dir = dir
	c.Env = append([]string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir}, env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("what %s says does not work: %v\n%s", document, err, out)
	}
	return string(out)
}
