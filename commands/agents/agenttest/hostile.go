package agenttest

import (
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"maps"
	"net/http"
	"strings"
	"time"
)

// Drip answers with one byte of a string at a time and never ends.
func Drip() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for text := `{"jsonrpc":"2.0","result":"`; ; text = "x" {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
			flush(w)
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
}

// Pings answers with an event stream that holds comments only and never ends.
func Pings() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := io.WriteString(w, ": ping\n\n"); err != nil {
				return
			}
			flush(w)
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})
}

// Silence takes the request and says nothing.
func Silence() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server sees a client go only once the body is read
		<-r.Context().Done()
	})
}

// Oversize answers with valid JSON of the given size and more.
func Oversize(size int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"text":"`) // the client hangs up
		block := strings.Repeat("x", 64<<10)
		for sent := 0; sent < size; sent += len(block) {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"}}`) // the client hangs up
	})
}

// OversizeEvent answers with one event of the given size and more.
func OversizeEvent(size int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: ") // the client hangs up
		block := strings.Repeat("x", 64<<10)
		for sent := 0; sent < size; sent += len(block) {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "\n\n") // the client hangs up
	})
}

// Chatter answers with an event stream of messages that answer nobody's request.
func Chatter() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		event := `data: {"jsonrpc":"2.0","method":"notifications/message","params":"` + strings.Repeat("x", 64<<10) + "\"}\n\n"
		for {
			if _, err := io.WriteString(w, event); err != nil {
				return
			}
		}
	})
}

// Raw answers with bytes that need not be HTTP, and hangs up.
func Raw(answer string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a connection closed before it is read is reset
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err) // a test server can do it
		}
		_, _ = io.WriteString(c, answer) // the client hangs up
		_ = c.Close()
	})
}

// Bomb answers with gzip that is small on the wire and has at least the given
// size decoded. It repeats one packed part, as gzip may.
func Bomb(size int) http.Handler {
	const part = 1 << 20
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.CopyN(z, zeros{}, part) // a buffer takes everything
	_ = z.Close()
	return Body(http.StatusOK, http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}},
		bytes.Repeat(packed.Bytes(), (size+part-1)/part))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// Body answers with fixed bytes.
func Body(status int, h http.Header, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), h)
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client hangs up
	})
}

// Page answers with an HTML page, whatever was asked.
func Page(status int, text string) http.Handler {
	return Body(status, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, []byte("<!doctype html><p>"+text))
}

// Reset takes the request and breaks the connection.
func Reset() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // broken anyway
		panic(http.ErrAbortHandler)
	})
}

// Redirect sends the client elsewhere, method and body included.
func Redirect(to string) http.Handler {
	return http.RedirectHandler(to, http.StatusTemporaryRedirect)
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

// quiet is for servers whose clients hang up on purpose.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
