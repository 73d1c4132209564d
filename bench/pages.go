package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/html"
)

// pages measures how long the pages of the demo take until their first byte comes: all that
// links lead to from the first one, each for the first time and then again. Nobody else
// asks meanwhile.
func (b *bench) pages(ctx context.Context) (err error) {
	binary := filepath.Join(b.scratch, "karatum-demo")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/karatum-demo")
	build.Dir, build.Stderr = "..", b.stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build karatum-demo, from the directory of the measurements: %w", err)
	}
	var said bytes.Buffer
	demo := exec.CommandContext(ctx, binary, "--listen", "127.0.0.1:0", "--rpc", "127.0.0.1:0")
	demo.Stderr = &said
	out, err := demo.StdoutPipe()
	if err != nil {
		return err
	}
	if err := demo.Start(); err != nil {
		return err
	}
	defer func() {
		_ = demo.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		_ = demo.Wait() // it was told to end
	}()
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		if at, ok := strings.CutSuffix(strings.TrimSpace(lines.Text()), "/v1/mystery"); ok {
			address = at
		}
	}
	if address == "" {
		return fmt.Errorf("the demo did not come up: %s", said.Bytes())
	}
	paths, first, err := crawl(ctx, address)
	if err != nil {
		return err
	}
	again := make([]float64, len(paths))
	for i, path := range paths {
		_, took, err := page(ctx, address+path)
		if err != nil {
			return err
		}
		again[i] = took
	}
	for _, m := range []struct {
		when string
		took []float64
	}{{"for the first time", first}, {"again", again}} {
		slices.Sort(m.took)
		what := fmt.Sprintf("first byte of %d pages, each %s", len(paths), m.when)
		b.note(what, "ms", m.took...)
		b.note(what+": 95 of 100 within", "ms", m.took[(len(m.took)*95-1)/100])
	}
	return nil
}

// crawl asks for each page once that links lead to from the first one, and returns which
// these are and how many milliseconds each took.
func crawl(ctx context.Context, address string) (paths []string, took []float64, err error) {
	seen := map[string]bool{"/mystery": true}
	for next := []string{"/mystery"}; len(next) > 0; next = next[1:] {
		links, ms, err := page(ctx, address+next[0])
		if errors.Is(err, errNoPage) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		paths, took = append(paths, next[0]), append(took, ms)
		for _, to := range links {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return paths, took, nil
}

var errNoPage = errors.New("no page")

// page asks for a page, and returns the paths that it has links to on its own host, and
// after how many milliseconds its first byte came.
func page(ctx context.Context, at string) (links []string, took float64, err error) {
	began := time.Now()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { took = time.Since(began).Seconds() * 1000 }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "text/html")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, 0, err
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, 0, fmt.Errorf("%s: %s", at, resp.Status)
	case !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"):
		return nil, 0, errNoPage
	}
	return linksIn(resp.Request.URL, body), took, nil
}

// linksIn returns the paths that a page leads to on its own host, without those that ask
// for another view of a page.
func linksIn(from *url.URL, body []byte) (paths []string) {
	for z := html.NewTokenizer(bytes.NewReader(body)); z.Next() != html.ErrorToken; {
		t := z.Token()
		if t.Type != html.StartTagToken || t.Data != "a" {
			continue
		}
		for _, a := range t.Attr {
			if to, err := from.Parse(a.Val); a.Key == "href" && err == nil && to.Host == from.Host && to.RawQuery == "" {
				paths = append(paths, to.EscapedPath())
			}
		}
	}
	return paths
}
