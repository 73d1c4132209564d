package programme

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/task"
)

// A Scope says which tasks a pause holds back. It reads the same here, in JSON
// and at the gate:
//
//	everything
//	host/agent.example:443
//	consent/cns_…
//	template/unit.convert
//	identity/3
//
// A host is a host and a port, of the endpoint that a consent names; an identity
// is its number in the pool.
type Scope string

// Everything is the scope of all tasks.
const Everything Scope = "everything"

// OfHost returns the scope of all tasks for a host, given as host:port.
func OfHost(host string) Scope { return Scope("host/" + host) }

// OfConsent returns the scope of all tasks under a consent.
func OfConsent(id string) Scope { return Scope("consent/" + id) }

// OfTemplate returns the scope of all tasks made from a template, whichever
// version of it.
func OfTemplate(id string) Scope { return Scope("template/" + id) }

// OfIdentity returns the scope of all tasks that are sent under an identity.
func OfIdentity(index uint32) Scope {
	return Scope("identity/" + strconv.FormatUint(uint64(index), 10))
}

// A Task is what a pause can know a task by.
type Task struct {
	Consent  string
	Host     string // host:port of its endpoint
	Template string
	Identity uint32
}

// Scopes returns the scopes that t falls under. It may be sent if none of them
// is paused.
func (t Task) Scopes() []Scope {
	return []Scope{Everything, OfHost(t.Host), OfConsent(t.Consent), OfTemplate(t.Template), OfIdentity(t.Identity)}
}

var (
	hosts    = regexp.MustCompile(`\A(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]):[1-9][0-9]{0,4}\z`)
	consents = regexp.MustCompile(`\Acns_[a-z2-7]{20}\z`)
	numbers  = regexp.MustCompile(`\A(?:0|[1-9][0-9]{0,3})\z`)
)

// Check returns nil if there can be tasks in s, else an error matching
// [domain.ErrInvalid]: a pause for what does not exist would stop nothing.
func (s Scope) Check() error {
	if s == Everything {
		return nil
	}
	kind, of, _ := strings.Cut(string(s), "/")
	switch kind {
	case "host":
		if !hosts.MatchString(of) {
			return invalid("%q is not a host and its port, such as agent.example:443", of)
		}
	case "consent":
		if !consents.MatchString(of) {
			return invalid("%q is not the id of a consent, cns_ and 20 more characters", of)
		}
	case "template":
		if !slices.ContainsFunc(task.Catalogue(), func(t task.Template) bool { return t.ID == of }) {
			return invalid("there is no template %q; karatum-verify task --list names them all", of)
		}
	case "identity":
		if n, _ := strconv.Atoi(of); !numbers.MatchString(of) || n >= identity.Size {
			return invalid("an identity is given by its number in the pool, 0 to %d, not %q", identity.Size-1, of)
		}
	default:
		return invalid("%q is not everything, nor a host, a consent, a template or an identity", s)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, domain.ErrInvalid)...)
}
