package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain/task"
)

// card is an agent card of 0.2, 0.3, 1.0, or two of them in one.
type card struct {
	// 0.2 and 0.3
	URL                  string  `json:"url"`
	ProtocolVersion      string  `json:"protocolVersion"` // missing before 0.2.5
	PreferredTransport   string  `json:"preferredTransport"`
	AdditionalInterfaces []iface `json:"additionalInterfaces"`

	// 1.0
	SupportedInterfaces []iface `json:"supportedInterfaces"`

	Skills []struct {
		ID          string   `json:"id"`
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Tags        []string `json:"tags"`
	} `json:"skills"`

	from       *url.URL // where it was found, after redirects
	registered *url.URL
}

// iface is one way to reach an agent: transport is its name in 0.3,
// protocolBinding in 1.0.
type iface struct {
	URL             string `json:"url"`
	Transport       string `json:"transport"`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
}

var bom = []byte("\xef\xbb\xbf")

// findCard looks below the registered URL first and at the root of its host
// then, under the name of 0.3 and 1.0 before that of 0.2. A registered URL that
// ends in .json is the card's own. What is no card is passed over: some hosts
// answer every path with a page.
func findCard(ctx context.Context, line *agents.Line, n agents.Net, registered string) (*card, error) {
	if err := n.CheckURL(registered); err != nil {
		return nil, err
	}
	u, err := url.Parse(registered)
	if err != nil {
		return nil, err
	}
	var wall *agents.Error
	for _, candidate := range candidates(u) {
		doc, err := line.Get(ctx, candidate, nil, agents.MaxCard)
		if err != nil {
			return nil, err
		}
		if e := doc.Refusal(); e != nil && wall == nil {
			wall = e
		}
		if doc.Status != http.StatusOK {
			continue
		}
		c := &card{from: doc.URL, registered: u}
		if json.Unmarshal(bytes.TrimPrefix(doc.Body, bom), c) == nil && len(c.interfaces()) > 0 && c.speaksFor(candidate) {
			return c, nil
		}
	}
	if wall != nil {
		return nil, wall
	}
	return nil, &agents.Error{Outcome: task.Error, Code: agents.NoCard, Reason: "no agent card at " + registered}
}

func candidates(u *url.URL) []string {
	if strings.HasSuffix(u.Path, ".json") {
		return []string{u.String()}
	}
	base := below(u)
	root := url.URL{Scheme: u.Scheme, Host: u.Host}
	prefixes := []string{base}
	if root.String() != base {
		prefixes = append(prefixes, root.String())
	}
	var all []string
	for _, prefix := range prefixes {
		for _, name := range []string{"agent-card.json", "agent.json"} {
			all = append(all, prefix+"/.well-known/"+name)
		}
	}
	return all
}

// below returns the prefix that all URLs below u share, without its slash.
func below(u *url.URL) string {
	base := url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}
	return base.String()
}

// speaksFor reports whether the card may speak for the registered URL: one found
// below it does, one found at the root of the host only if it names an endpoint
// there, for several agents may share a host.
func (c *card) speaksFor(found string) bool {
	base := below(c.registered)
	if strings.HasSuffix(c.registered.Path, ".json") || strings.HasPrefix(found, base+"/") {
		return true
	}
	return slices.ContainsFunc(c.interfaces(), func(i iface) bool {
		return i.URL == base || strings.HasPrefix(i.URL, base+"/")
	})
}

// interfaces returns all interfaces of the card in one shape, those of 1.0
// first, with absolute URLs and without repetitions.
func (c *card) interfaces() []iface {
	var all []iface
	add := func(i iface, fallback string) {
		u, err := c.from.Parse(i.URL)
		if err != nil || i.URL == "" {
			return
		}
		binding := strings.ToUpper(i.ProtocolBinding + i.Transport)
		if binding == "" {
			binding = "JSONRPC"
		}
		version := i.ProtocolVersion
		if version == "" {
			version = fallback
		}
		flat := iface{URL: u.String(), ProtocolBinding: binding, ProtocolVersion: version}
		if !slices.Contains(all, flat) {
			all = append(all, flat)
		}
	}
	for _, i := range c.SupportedInterfaces {
		add(i, V1)
	}
	version := c.ProtocolVersion
	if version == "" {
		version = V0
	}
	add(iface{URL: c.URL, Transport: c.PreferredTransport}, version)
	for _, i := range c.AdditionalInterfaces {
		add(i, version)
	}
	return all
}

// dialect returns how a protocol version is spoken, or "" if it is not.
func dialect(version string) string {
	major, _, _ := strings.Cut(version, ".")
	switch {
	case major == "1":
		return V1
	case strings.HasPrefix(version, "0.2"), strings.HasPrefix(version, "0.3"):
		return V0
	}
	return ""
}

// choose returns the first JSON-RPC interface in 1.0 or else in 0.3. It must lie
// on the host that was registered: the consent and the host proof cover no other.
func (c *card) choose(n agents.Net) (agents.Target, error) {
	var refused error
	for _, want := range []string{V1, V0} {
		for _, i := range c.interfaces() {
			if i.ProtocolBinding != "JSONRPC" || dialect(i.ProtocolVersion) != want {
				continue
			}
			err := c.covers(n, i.URL)
			if err == nil {
				return agents.Target{URL: i.URL, Dialect: want}, nil
			}
			if refused == nil {
				refused = err
			}
		}
	}
	if refused != nil {
		return agents.Target{}, refused
	}
	return agents.Target{}, &agents.Error{
		Outcome: task.Blocked, Code: agents.UnsupportedTransport,
		Reason: "the card names no JSON-RPC interface in a version that we speak",
	}
}

func (c *card) covers(n agents.Net, target string) error {
	if err := n.Follow(target); err != nil {
		return err
	}
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	if !agents.SameHost(c.registered, u) {
		return &agents.Error{
			Outcome: task.Blocked, Code: agents.UnsupportedTransport,
			Reason: fmt.Sprintf("the card leads to %s, which the consent does not cover", u.Host),
		}
	}
	return nil
}

func (c *card) skills() []task.Skill {
	skills := make([]task.Skill, 0, len(c.Skills))
	for _, s := range c.Skills {
		skills = append(skills, task.Skill{ID: s.ID, Name: s.Name, Description: s.Description, Tags: s.Tags})
	}
	return skills
}
