package checker_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/karatum/mystery/api/explorer/checker"
)

// Built without make wasm, there is none; built with it, it is WebAssembly.
func TestBuilt(t *testing.T) {
	t.Parallel()
	p := checker.Built()
	if p == nil {
		t.Skip("make wasm was not run")
	}
	z, err := gzip.NewReader(bytes.NewReader(p.WASM))
	if err != nil {
		t.Fatal(err)
	}
	magic := make([]byte, 4)
	if _, err := io.ReadFull(z, magic); err != nil || string(magic) != "\x00asm" {
		t.Errorf("the program begins with %q, %v", magic, err)
	}
	if !bytes.Contains(p.Runtime, []byte("Go Authors")) {
		t.Error("what runs the program is not of the Go distribution")
	}
}
