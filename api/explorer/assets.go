package explorer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/api/accept"
	"github.com/karatum/mystery/api/explorer/checker"
)

// This file serves what pages are made with: a style sheet, an icon, and the scripts
// that do more for readers whose browser runs them. Each stands at an address that holds
// its hash, so that what is kept of it is never stale, and pages name the whole hash.

//go:embed assets
var assets embed.FS

// A file is one that pages are made with, as pages refer to it.
type file struct {
	Path      string
	Integrity string // as in Subresource Integrity
}

// assetTypes are the media types of the folder assets.
var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// fileOf says where a file is served that has these contents.
func fileOf(name string, data []byte) file {
	ext, sum := path.Ext(name), sha256.Sum256(data)
	return file{
		Path:      "/assets/" + strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:8]) + ext,
		Integrity: "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
	}
}

// filesOf returns the files of the folder assets by name.
func filesOf() map[string]file {
	files := make(map[string]file)
	list, err := assets.ReadDir("assets")
	if err != nil {
		panic(fmt.Sprintf("explorer: %v", err)) // it is embedded
	}
	for _, f := range list {
		files[f.Name()] = fileOf(f.Name(), asset(f.Name()))
	}
	return files
}

func asset(name string) []byte {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(fmt.Sprintf("explorer: %v", err)) // it is embedded
	}
	return data
}

// registerFiles serves all files, and the program that browsers run.
func (p *Pages) registerFiles(r chi.Router) {
	for name, f := range p.files {
		r.Get(f.Path, serveFile(asset(name), assetTypes[path.Ext(name)]))
	}
	if c := p.config.Checker; c != nil {
		r.Get(p.checker.Runtime, serveFile(c.Runtime, assetTypes[".js"]))
		r.Get(p.checker.Path, serveCompressed(c.WASM, "application/wasm"))
	}
}

func immutable(w http.ResponseWriter, contentType string) {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", contentType)
}

// serveFile serves a file that never changes under its address.
func serveFile(data []byte, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		immutable(w, contentType)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}

// serveCompressed serves a file that is kept in the format of gzip, to those who do not
// read that as it was before.
func serveCompressed(data []byte, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		immutable(w, contentType)
		w.Header().Set("Vary", "Accept-Encoding")
		if accept.Weight(r.Header, "Accept-Encoding", "gzip") > 0 {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Length", strconv.Itoa(len(data)))
			_, _ = w.Write(data) // the client may be gone
			return
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			panic(err) // it was read when the pages were made
		}
		_, _ = io.Copy(w, z) //nolint:gosec // it is ours
	}
}

// A program is the one that browsers run, as a page refers to it.
type program struct {
	file

	Runtime string // address of what runs it
}

// programOf says where the program is served. Its hash is that of what it is when it is
// no longer compressed, which browsers look at.
func programOf(c *checker.Program) (*program, error) {
	if c == nil {
		return nil, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(c.WASM))
	if err != nil {
		return nil, err
	}
	wasm, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	return &program{fileOf("verify.wasm", wasm), fileOf("wasm_exec.js", c.Runtime).Path}, nil
}
