package agent

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/karatum/mystery/domain"
)

// A Ref names an agent: "build:<id>" for a Karatum build, or
// "erc8004:<chain>:<registry>:<id>" for an agent on an ERC-8004 identity registry.
// A Ref is lower-case, and its decimals have no leading zeros, so that one agent
// has one name.
type Ref string

var refs = regexp.MustCompile(`^(?:build:(?:0|[1-9][0-9]*|[0-9]*[a-z_-][a-z0-9_-]*)|` +
	`erc8004:[1-9][0-9]{0,18}:0x[0-9a-f]{40}:(?:0|[1-9][0-9]{0,77}))$`)

// maxRef bounds the length of a ref; the longest ERC-8004 one has 148 characters.
const maxRef = 160

// ParseRef checks that s names an agent.
func ParseRef(s string) (Ref, error) {
	if len(s) > maxRef || !refs.MatchString(s) {
		return "", fmt.Errorf("an agent is named build:<id> or erc8004:<chain>:<registry>:<id>, "+
			"in lower case and without leading zeros: %w", domain.ErrInvalid)
	}
	if _, ok := Ref(s).Token(); !ok && strings.HasPrefix(s, "erc8004:") {
		return "", fmt.Errorf("the id of an ERC-8004 agent is below 2^256, that of its chain below 2^53: %w", domain.ErrInvalid)
	}
	return Ref(s), nil
}

// VerifiedFor reports whether the endpoint is a verified identity of the agent.
// Only the very URL counts, give or take a slash at the end: what was shown of
// one path says nothing of others on its host.
func (s State) VerifiedFor(endpoint string) bool {
	for identity := range s.Identities {
		if strings.TrimSuffix(identity, "/") == strings.TrimSuffix(endpoint, "/") {
			return true
		}
	}
	return false
}
