// Package checker holds the program that checks a slot in the browser of who reads its
// page, cmd/karatum-verify-wasm, as it was built by make wasm. What is built is not
// kept with the source: it is as large as all of that. A server that is built without
// it works all the same, and its pages say so.
package checker

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

// A Program is one that browsers run.
type Program struct {
	WASM    []byte // WebAssembly, compressed with gzip
	Runtime []byte // JavaScript of the Go distribution that runs it
}

//go:embed all:built
var built embed.FS

// Built returns the program that this server was built with, nil if it was built without.
func Built() *Program {
	p, err := read(built)
	if err != nil {
		panic(fmt.Sprintf("checker: %v", err)) // it is embedded
	}
	return p
}

func read(files fs.FS) (*Program, error) {
	p := new(Program)
	for _, part := range []struct {
		name string
		into *[]byte
	}{{"built/verify.wasm.gz", &p.WASM}, {"built/wasm_exec.js", &p.Runtime}} {
		data, err := fs.ReadFile(files, part.name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		*part.into = data
	}
	return p, nil
}
