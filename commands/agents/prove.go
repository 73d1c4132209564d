package agents

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

const (
	proofPath    = "/.well-known/karatum-mystery.json"
	maxProof     = 64 << 10
	proofTimeout = 10 * time.Second // for all of one fetch, redirects and body included
)

// Hosts answers for the hosts of endpoints: whether they may be shopped at all, and
// whose they are. A host says so in a document at /.well-known/karatum-mystery.json,
//
//	{"owners": ["0x…"], "stop": false}
//
// It is JSON as of RFC 8259 in at most 64 KiB, served with the media type
// application/json or one that ends in +json. Owners are the wallets that may
// consent to tasks for this host and port. Anything in stop but false or null says
// that the host wants no tasks, whoever owns it. Other members mean nothing.
//
// The fetch makes itself known as KaratumBot, is no part of any task, and follows no
// redirect to another host.
type Hosts struct {
	Net    Net
	Recent Recent // nil: each question is a fetch
	About  string // URL of the page about KaratumBot, for its User-Agent

	limit time.Duration // of one fetch; 0 means proofTimeout
}

var _ commands.Hosts = Hosts{}

// Recent remembers for all processes what hosts said lately, so that none is asked
// more than once a minute however many endpoints, consents and processes want to
// know. Fetch returns what is remembered under key if it is young enough. Otherwise
// it calls fetch with what is remembered from before (nil: nothing), remembers what
// that returns, and returns it.
type Recent interface {
	Fetch(ctx context.Context, key string, fetch func(ctx context.Context, last []byte) []byte) ([]byte, error)
}

// Check implements [commands.Hosts].
func (h Hosts) Check(url string) error { return h.Net.CheckURL(url) }

// Prove implements [commands.Hosts]. A host that said stop stays stopped for as long
// as its document cannot be read.
func (h Hosts) Prove(ctx context.Context, endpoint string, owner eip191.Address) error {
	u, err := h.Net.parse(endpoint)
	if err != nil {
		return err
	}
	w, err := h.word(ctx, u)
	switch {
	case err != nil:
		return fmt.Errorf("the host proof of %s could not be read: %w", u.Host, err)
	case w.Stop:
		return commands.ErrStopped
	case w.Silent:
		return fmt.Errorf("the host proof of %s could not be read, %s: %w", u.Host, w.Fault, domain.ErrUnavailable)
	case w.Fault != "":
		return domain.WithCode(w.Code, fmt.Errorf("%s: %w", w.Fault, domain.ErrForbidden))
	case !slices.Contains(w.Owners, owner):
		return domain.WithCode(domain.OwnerNotListed,
			fmt.Errorf("%s at its host does not list %s: %w", proofPath, owner, domain.ErrForbidden))
	}
	return nil
}

// A word is what a host said when it was last asked. Its JSON is what [Recent] keeps.
type word struct {
	Owners []eip191.Address `json:"owners,omitempty"`
	Stop   bool             `json:"stop,omitempty"`
	Fault  string           `json:"fault,omitempty"`  // why it proves nothing: words of ours alone, unless Silent
	Code   domain.Code      `json:"code,omitempty"`   // of Fault
	Silent bool             `json:"silent,omitempty"` // it could not be asked, which proves nothing either way
}

// word returns what the host of u says, or said less than a minute ago.
func (h Hosts) word(ctx context.Context, u *url.URL) (w word, err error) {
	if h.Recent == nil {
		return h.ask(ctx, u), nil
	}
	kept, err := h.Recent.Fetch(ctx, "proof/"+hostOf(u), func(ctx context.Context, last []byte) []byte {
		w := h.ask(ctx, u)
		var before word
		if w.Silent && json.Unmarshal(last, &before) == nil {
			w.Stop = before.Stop
		}
		b, _ := json.Marshal(w) // of text and booleans
		return b
	})
	if err != nil {
		return w, err
	}
	return w, json.Unmarshal(kept, &w)
}

// ask fetches the document of the host of u.
func (h Hosts) ask(ctx context.Context, u *url.URL) word {
	limit := h.limit
	if limit == 0 {
		limit = proofTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	line := h.Net.Line(ctx, crawler(h.About), nil)
	defer line.Close()
	line.hop = SameHost
	target := url.URL{Scheme: u.Scheme, Host: u.Host, Path: proofPath}
	doc, err := line.Get(ctx, target.String(), http.Header{"Accept": {"application/json"}}, maxProof)
	if err != nil {
		return unread(err)
	}
	return wordOf(doc)
}

// unread returns what it says of a host that its document did not come. What the
// host itself is the cause of, and will be the next time, is an answer.
func unread(err error) word {
	var e *Error
	if !errors.As(err, &e) {
		return word{Silent: true, Fault: err.Error()}
	}
	switch {
	case e.Status >= http.StatusInternalServerError: // whatever its page is like
	case e.Code == TooLarge:
		return faulty(domain.ProofTooLarge, "%s at its host is longer than %d bytes", proofPath, maxProof)
	case e.Code == PrivateAddress:
		return faulty(domain.PrivateAddress, "its host leads to an address that is not public")
	case e.Code == UnsupportedTransport:
		return faulty(domain.ProofRedirected, "%s at its host leads to another host", proofPath)
	case e.Code == Protocol:
		return faulty(domain.ProofMalformed, "%s at its host is not encoded as it says, or leads on and on", proofPath)
	}
	return word{Silent: true, Fault: e.Reason}
}

func faulty(code domain.Code, format string, args ...any) word {
	return word{Fault: fmt.Sprintf(format, args...), Code: code}
}

func wordOf(doc *Document) word {
	switch doc.Status {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return faulty(domain.ProofMissing, "its host has no %s", proofPath)
	default:
		return word{Silent: true, Fault: fmt.Sprintf("HTTP %d", doc.Status)}
	}
	t, _, err := mime.ParseMediaType(doc.Header.Get("Content-Type"))
	if err != nil || t != "application/json" && !strings.HasSuffix(t, "+json") {
		return faulty(domain.ProofMalformed, "%s at its host is not served as application/json", proofPath)
	}
	members, err := openObject(doc.Body)
	if err != nil {
		return faulty(domain.ProofMalformed, "%s at its host is not one JSON object without repeated names", proofPath)
	}
	var w word
	// Whoever writes "yes" or 1 means it.
	if stop := string(members["stop"]); stop != "" && stop != "false" && stop != "null" {
		w.Stop = true
	}
	var owners []string
	if raw, ok := members["owners"]; ok && json.Unmarshal(raw, &owners) != nil {
		w.Fault, w.Code = "owners in "+proofPath+" at its host is not a list of addresses", domain.ProofMalformed
		return w
	}
	w.Owners = addresses(owners)
	return w
}

// openObject takes a JSON object apart: well-formed UTF-8, no name twice at any
// depth, nothing behind it. Names match to the letter.
func openObject(doc []byte) (map[string]json.RawMessage, error) {
	// The canonical form exists of such documents only (RFC 8785, section 3.1).
	strict, err := domain.Canonical(json.RawMessage(doc))
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if !bytes.HasPrefix(strict, []byte("{")) {
		return nil, errors.New("not an object")
	}
	return members, json.Unmarshal(strict, &members)
}

// addresses returns those of texts that are 0x and 20 bytes in hex, in whatever
// case: a list that people keep by hand is not refused for one bad line.
func addresses(texts []string) []eip191.Address {
	var all []eip191.Address
	for _, text := range texts {
		digits, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(text)), "0x")
		b, err := hex.DecodeString(digits)
		if a := (eip191.Address{}); ok && err == nil && len(b) == len(a) {
			copy(a[:], b)
			all = append(all, a)
		}
	}
	return all
}
