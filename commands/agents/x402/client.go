package x402

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

// A Client asks agents whose endpoint is a paid resource: it GETs what the task asks
// for, its members in the query, and the answer is the body. What pays on the way is
// the Through of a call. Its methods may be called from several goroutines.
type Client struct{ Net agents.Net }

// maxResource is the limit of a body.
const maxResource = 2 << 20

// Observe asks for the resource without paying, and returns how it is sold. It
// returns an [agents.Error] if it is not, or not in a way that can be paid.
func (c Client) Observe(ctx context.Context, endpoint string, as agents.Sender) (s task.Surface, t agents.Target, err error) {
	line := c.Net.Line(ctx, as, nil)
	defer line.Close()
	d, err := line.Get(ctx, endpoint, nil, maxOffer)
	if err != nil {
		return s, t, err
	}
	if d.Status != http.StatusPaymentRequired {
		if e := d.Refusal(); e != nil {
			return s, t, e
		}
		return s, t, &agents.Error{
			Outcome: task.Error, Code: agents.Protocol, Status: d.Status, Raw: d.Body,
			Reason: fmt.Sprintf("HTTP %d came where a price was asked for: it is not for sale", d.Status),
		}
	}
	list, err := prices(d.Header, d.Body)
	if err != nil {
		return s, t, err
	}
	// One way to pay is enough, and the next look must find the same.
	sale := list[0].sale()
	return task.Surface{Kind: task.X402, Sales: []task.Sale{sale}}, agents.Target{URL: endpoint, PayTo: sale.PayTo}, nil
}

// Ask asks for the resource and pays, if call.Through does. The error is about us;
// all that is about the agent stands in the reply. A 402 is a reply too: what it
// means after a payment is not for the client to say.
func (c Client) Ask(ctx context.Context, call agents.Call) (agents.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, call.Deadline)
	defer cancel()
	line := c.Net.Line(ctx, call.Sender, call.Gate).Record(call.Exchanged)
	defer line.Close()
	var reply agents.Reply
	err := ask(ctx, line, call, &reply)
	return reply.Settle(err)
}

func ask(ctx context.Context, line *agents.Line, call agents.Call, reply *agents.Reply) error {
	target, err := locate(call)
	if err != nil {
		return err
	}
	through := call.Through
	if through == nil {
		through = func(plain http.RoundTripper) http.RoundTripper { return plain }
	}
	d, err := line.Fetch(ctx, target, nil, maxResource, through)
	if err != nil {
		return err
	}
	reply.Status, reply.Raw, reply.Latency = d.Status, d.Body, d.Latency
	if e := d.Refusal(); e != nil {
		return e
	}
	if d.Status < 200 || d.Status > 299 {
		return &agents.Error{
			Outcome: task.Error, Code: strconv.Itoa(d.Status), Status: d.Status, Raw: d.Body, Reason: fmt.Sprintf("HTTP %d came in place of the resource", d.Status),
		}
	}
	reply.Text = string(d.Body)
	return nil
}

// locate returns the URL of what a call asks for: that of the resource with the
// members of the question in its query.
func locate(call agents.Call) (string, error) {
	var members map[string]string
	if err := json.Unmarshal(call.Ask.Arguments, &members); err != nil {
		return "", fmt.Errorf("a paid resource is asked for by an object of strings: %w", domain.ErrInvalid)
	}
	values := url.Values{}
	for name, value := range members {
		values.Set(name, value)
	}
	before, query, has := strings.Cut(call.Target.URL, "?")
	if has && query != "" {
		return before + "?" + query + "&" + values.Encode(), nil
	}
	return before + "?" + values.Encode(), nil
}
