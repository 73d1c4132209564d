package commands

import (
	"net/netip"
	"time"

	"github.com/karatum/mystery/domain/agent"
)

// Limits of what strangers may ask for, in any hour.
const (
	challengesPerAgent   = 5 // of one agent, from one client address
	challengesPerAddress = 20
)

// readsPerAddress is how often a client address may read in any minute: enough to check
// hundreds of tasks in one go, at half a dozen requests each.
const readsPerAddress = 3000

// A Quota bounds how often something may be asked for in any stretch of time as
// long as its window.
type Quota struct {
	Name   string // of the limit
	Key    string // what is counted by itself
	Limit  int
	Window time.Duration
}

// Spent is what came of asking for one more of each of several quotas.
type Spent struct {
	OK   bool   // false: one is used up, and none was charged
	Left []Left // of the quotas, in order
}

// Left is what is left of a quota. The zero Reset says that all of it is.
type Left struct {
	Remaining int
	Reset     time.Duration // until there is more of it
}

// Wait returns how long to wait before asking again is of use.
func (s Spent) Wait() (d time.Duration) {
	for _, l := range s.Left {
		if !s.OK && l.Remaining == 0 {
			d = max(d, l.Reset)
		}
	}
	return d
}

// GrantQuotas returns what a client at an address draws on when it asks for a
// consent for an agent to sign.
func GrantQuotas(ref agent.Ref, client netip.Addr) []Quota {
	at := network(client)
	return []Quota{
		{Name: "grant-agent", Key: at + " " + string(ref), Limit: challengesPerAgent, Window: time.Hour},
		{Name: "grant-address", Key: at, Limit: challengesPerAddress, Window: time.Hour},
	}
}

// RevokeQuotas is the same for a revocation. It counts neither by agent nor by
// consent, and apart from the above: whatever others ask for, an owner can revoke.
func RevokeQuotas(client netip.Addr) []Quota {
	return []Quota{{Name: "revoke-address", Key: network(client), Limit: challengesPerAddress, Window: time.Hour}}
}

// ReplyQuotas is the same for a reply to a finding.
func ReplyQuotas(client netip.Addr) []Quota {
	return []Quota{{Name: "reply-address", Key: network(client), Limit: challengesPerAddress, Window: time.Hour}}
}

// ReadQuotas is the same for reading what is public.
func ReadQuotas(client netip.Addr) []Quota {
	return []Quota{{Name: "read-address", Key: network(client), Limit: readsPerAddress, Window: time.Minute}}
}

// network returns what stands for one client: an IPv4 address, or the /64 of an
// IPv6 address, which is the least that a client is given (RFC 6177, section 2).
func network(client netip.Addr) string {
	client = client.Unmap().WithZone("")
	if client.Is6() {
		p, _ := client.Prefix(64) // no longer than an address
		return p.String()
	}
	return client.String()
}
