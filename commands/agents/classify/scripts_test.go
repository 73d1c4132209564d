//go:build peers

package classify_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/agents/a2a"
	"github.com/karatum/mystery/commands/agents/agenttest"
	"github.com/karatum/mystery/commands/agents/classify"
	"github.com/karatum/mystery/commands/agents/house"
	"github.com/karatum/mystery/commands/agents/mcp"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

// limit is how well a learner may tell the shopper from others.
const limit = 0.6

// A job is one task as scripts are told it.
type job struct {
	Kind      string          `json:"kind"` // card, a2a or mcp
	URL       string          `json:"url"`
	Dialect   string          `json:"dialect"`
	Text      string          `json:"text"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// jobs makes tasks to learn from, or to be tried on. Their words hold what JSON
// libraries write in ways of their own.
func jobs(r *rand.Rand) (js []job) {
	words := []string{"café", "<b>", "R&D", "it's", "\"so\"", "naïve", "€", "a/b", "🙂", "miles", "tea\tcup"}
	question := func() string {
		return fmt.Sprintf("What is %d %% of %d? Note: %s and %s.", r.IntN(100), r.IntN(10000), words[r.IntN(len(words))], words[r.IntN(len(words))])
	}
	for i := range 36 {
		switch i % 6 {
		case 0:
			js = append(js, job{Kind: "card"})
		case 1, 2:
			js = append(js, job{Kind: "a2a", Dialect: a2a.V1, Text: question()})
		case 3:
			js = append(js, job{Kind: "a2a", Dialect: a2a.V0, Text: question()})
		case 4:
			js = append(js, job{Kind: "mcp", Tool: "convert_units", Arguments: json.RawMessage(fmt.Sprintf(`{"value":%d,"from":"miles","to":"kilometers"}`, r.IntN(1000)))})
		default:
			arguments, _ := domain.Canonical(map[string]string{"question": question()}) // strings alone, which have a canonical form
			js = append(js, job{Kind: "mcp", Tool: "arithmetic", Arguments: arguments})
		}
	}
	return js
}

// TestClassify lets learners look for what tells the requests of an identity from
// those that its library itself makes in a script which sends the same tasks: what
// is up to the author of a script, such as the name it gives itself, is the same for
// both. They learn from one half of the tasks and are tried on the other, on each
// identity by itself, as one that stands out is lost among twelve, and on all.
func TestClassify(t *testing.T) {
	agents := house.Handler(house.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".json") { // a card leads to where it was asked for
			house.Handler(house.Options{Base: "http://" + r.Host}).ServeHTTP(w, r)
			return
		}
		agents.ServeHTTP(w, r)
	}))
	defer server.Close()
	backend := server.Listener.Addr().String()

	halves := [2][]job{jobs(rand.New(rand.NewPCG(1, 1))), jobs(rand.New(rand.NewPCG(1, 2)))}
	var all [2][]classify.Sample
	for _, id := range identity.Pool() {
		var samples [2][]classify.Sample
		for half, js := range halves {
			for _, kind := range []struct {
				shop bool
				run  func(*testing.T, identity.Identity, []job)
			}{{true, shop}, {false, ordinary}} {
				for _, r := range tapped(t, backend, js, func(js []job) { kind.run(t, id, js) }) {
					if id.MCPListens {
						// It answers while it reads, so which of its connections is
						// free for a request is a race that no two runs end alike.
						r.Nth = 0
					}
					samples[half] = append(samples[half], classify.Sample{Shop: kind.shop, Features: r.Features()})
				}
			}
			all[half] = append(all[half], samples[half]...)
		}
		judge(t, id.Name+" ("+id.Library+")", samples)
	}
	judge(t, "all", all)
}

func judge(t *testing.T, name string, samples [2][]classify.Sample) {
	t.Helper()
	for _, l := range classify.Learners {
		rule := l.Learn(samples[0])
		accuracy := classify.Accuracy(rule, samples[1])
		t.Logf("%-24s %-16s learnt from %4d, tried on %4d: right in %5.1f %%", name, l.Name, len(samples[0]), len(samples[1]), 100*accuracy)
		if accuracy > limit {
			t.Errorf("%s: %s is right in %.1f %%, want at most %.0f %%: %v", name, l.Name, 100*accuracy, 100*limit, rule)
		}
	}
}

// tapped returns the requests of tasks, each of which is sent to a port of its own,
// so that none finds a connection that another has left.
func tapped(t *testing.T, backend string, js []job, send func([]job)) (requests []classify.Request) {
	t.Helper()
	paths := map[string]string{"card": "/.well-known/agent-card.json", "a2a": "/a2a", "mcp": "/mcp"}
	told := make([]job, len(js))
	taps := make([]*classify.Tap, len(js))
	for i, j := range js {
		tap, err := classify.Open(t.Context(), backend, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		taps[i], told[i] = tap, j
		told[i].URL = "http://" + tap.Addr() + "/demo-agents/steady" + paths[j.Kind]
	}
	send(told)
	for _, tap := range taps {
		requests = append(requests, tap.Close()...)
	}
	return requests
}

// shop sends tasks as the shopper does.
func shop(t *testing.T, id identity.Identity, js []job) {
	t.Helper()
	n, as := agents.Loopback(time.Now, nil), agents.As(id)
	for _, j := range js {
		call := agents.Call{Target: agents.Target{URL: j.URL, Dialect: j.Dialect}, Sender: as, Deadline: time.Minute}
		var reply agents.Reply
		var err error
		switch j.Kind {
		case "card":
			_, _, err = a2a.Client{Net: n}.Observe(t.Context(), j.URL, as)
		case "a2a":
			call.Ask = task.Ask{Text: j.Text}
			reply, err = a2a.Client{Net: n}.Ask(t.Context(), call)
		default:
			call.Ask = task.Ask{Tool: j.Tool, Arguments: j.Arguments}
			reply, err = mcp.Client{Net: n}.Ask(t.Context(), call)
		}
		if err != nil || reply.Outcome != "" {
			t.Fatalf("%s: %+v = %+v, %v", id.Name, j, reply, err)
		}
	}
}

// ordinary sends tasks as a script on the library of an identity does.
func ordinary(t *testing.T, id identity.Identity, js []job) {
	t.Helper()
	switch id.Library {
	case "requests", "httpx", "aiohttp":
		script(t, id, js, "/usr/bin/python3", "script.py")
	case "axios", "got", "node fetch":
		script(t, id, js, "node", "script.mjs")
	case "curl":
		converse(t, id, js, func() poster { return curl{t, id} })
	case "net/http":
		converse(t, id, js, func() poster { return &plain{t: t} })
	case "okhttp":
		converse(t, id, js, func() poster { return &okhttp{t: t} })
	default:
		t.Fatalf("nothing here sends requests with %s", id.Library)
	}
}

func script(t *testing.T, id identity.Identity, js []job, program, file string) {
	t.Helper()
	in, err := json.Marshal(map[string]any{"identity": id, "tasks": js})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, file)
	cmd.Dir, cmd.Stdin = agenttest.Peers(t), bytes.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s with %s: %v\n%s", file, id.Library, err, out)
	}
}

// A poster sends requests in the way of one library. An empty body is a GET.
type poster interface {
	send(url string, headers []identity.Header, body []byte) (session string)
}

// converse is what scripts in other languages do, for a library that is used from
// here.
func converse(t *testing.T, id identity.Identity, js []job, open func() poster) {
	t.Helper()
	for _, j := range js {
		p, n := open(), 0
		call := func(headers []identity.Header, method string, params any) string {
			frame := struct {
				Version string `json:"jsonrpc"`
				ID      *int   `json:"id,omitempty"`
				Method  string `json:"method"`
				Params  any    `json:"params,omitempty"`
			}{"2.0", nil, method, params}
			if !strings.HasPrefix(method, "notifications/") {
				n++
				frame.ID = &n
			}
			var body bytes.Buffer
			enc := json.NewEncoder(&body)
			enc.SetEscapeHTML(id.Library == "net/http") // where json.Marshal is at hand
			if err := enc.Encode(frame); err != nil {
				t.Fatal(err)
			}
			return p.send(j.URL, headers, bytes.TrimSpace(body.Bytes()))
		}
		switch j.Kind {
		case "card":
			p.send(j.URL, nil, nil)
		case "a2a":
			askA2A(id, j, call)
		default:
			headers := []identity.Header{{Name: "Accept", Value: "application/json, text/event-stream"}}
			session := call(headers, "initialize", struct {
				Version      string              `json:"protocolVersion"`
				Capabilities struct{}            `json:"capabilities"`
				Client       identity.ClientInfo `json:"clientInfo"`
			}{id.MCPVersion, struct{}{}, id.ClientInfo})
			headers = append(headers, identity.Header{Name: "Mcp-Protocol-Version", Value: id.MCPVersion})
			if session != "" {
				headers = append(headers, identity.Header{Name: "Mcp-Session-Id", Value: session})
			}
			call(headers, "notifications/initialized", nil)
			call(headers, "tools/list", nil)
			call(headers, "tools/call", struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			}{j.Tool, j.Arguments})
		}
	}
}

func askA2A(id identity.Identity, j job, call func([]identity.Header, string, any) string) {
	type (
		part struct {
			Kind string `json:"kind,omitempty"`
			Text string `json:"text"`
		}
		message struct {
			Kind string `json:"kind,omitempty"`
			ID   string `json:"messageId"`
			Role string `json:"role"`
			Part []part `json:"parts"`
		}
		configuration struct {
			Modes    []string `json:"acceptedOutputModes"`
			Blocking bool     `json:"blocking,omitempty"`
		}
		params struct {
			Message       message       `json:"message"`
			Configuration configuration `json:"configuration"`
		}
	)
	messageID := uuid.NewString()
	if id.MessageIDs == identity.Hex {
		messageID = strings.ReplaceAll(messageID, "-", "")
	}
	if j.Dialect == a2a.V1 {
		call([]identity.Header{{Name: "A2A-Version", Value: a2a.V1}}, "SendMessage",
			params{message{"", messageID, "ROLE_USER", []part{{"", j.Text}}}, configuration{Modes: []string{"text/plain"}}})
		return
	}
	call(nil, "message/send",
		params{message{"message", messageID, "user", []part{{"text", j.Text}}}, configuration{[]string{"text/plain"}, true}})
}

// curl sends each request by a run of the program, as a shell script does.
type curl struct {
	t  *testing.T
	id identity.Identity
}

func (c curl) send(url string, headers []identity.Header, body []byte) string {
	c.t.Helper()
	args := []string{"-sS", "-i", "--raw", "-A", c.id.UserAgent} // which names the version of the program
	accept := len(headers) > 0 && headers[0].Name == "Accept"
	if accept {
		args, headers = append(args, "-H", "Accept: "+headers[0].Value), headers[1:]
	}
	if body != nil {
		args = append(args, "-H", "Content-Type: application/json", "--data-binary", string(body))
	}
	for _, h := range headers {
		args = append(args, "-H", h.Name+": "+h.Value)
	}
	out, err := exec.CommandContext(c.t.Context(), "curl", append(args, url)...).Output()
	if err != nil {
		c.t.Fatalf("curl: %v", err)
	}
	return answered(c.t, bufio.NewReader(bytes.NewReader(out)))
}

// plain is net/http itself.
type plain struct {
	t      *testing.T
	client http.Client
}

func (p *plain) send(url string, headers []identity.Header, body []byte) string {
	p.t.Helper()
	if p.client.Transport == nil {
		p.client.Transport = &http.Transport{}
	}
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		req.Header.Set(h.Name, h.Value)
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	return done(p.t, res)
}

// okhttp plays back what was recorded of the library, which needs a Java machine
// to run: its own headers behind those of the caller, and all in one segment.
type okhttp struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (o *okhttp) send(url string, headers []identity.Header, body []byte) string {
	o.t.Helper()
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	if o.conn == nil {
		c, err := (&net.Dialer{}).DialContext(o.t.Context(), "tcp", host)
		if err != nil {
			o.t.Fatal(err)
		}
		o.t.Cleanup(func() { c.Close() })
		o.conn, o.in = c, bufio.NewReader(c)
	}
	var b strings.Builder
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	fmt.Fprintf(&b, "%s /%s HTTP/1.1\r\n", method, path)
	for _, h := range headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h.Name, h.Value)
	}
	if body != nil {
		fmt.Fprintf(&b, "Content-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n", len(body))
	}
	fmt.Fprintf(&b, "Host: %s\r\nConnection: Keep-Alive\r\nAccept-Encoding: gzip\r\nUser-Agent: okhttp/3.13.1\r\n\r\n%s", host, body)
	if _, err := io.WriteString(o.conn, b.String()); err != nil {
		o.t.Fatal(err)
	}
	return answered(o.t, o.in)
}

// answered reads an answer and returns the session that it names.
func answered(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return done(t, res)
}

func done(t *testing.T, res *http.Response) string {
	t.Helper()
	if _, err := io.Copy(io.Discard, res.Body); err != nil && !strings.Contains(err.Error(), "unexpected EOF") || res.StatusCode >= 400 {
		t.Fatalf("%s: %v", res.Status, err)
	}
	return res.Header.Get("Mcp-Session-Id")
}
