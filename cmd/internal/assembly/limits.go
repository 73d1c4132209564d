package assembly

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/karatum/mystery/api"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/commands/meter"
	"github.com/karatum/mystery/commands/tables"
	"github.com/karatum/mystery/domain"
)

// A manners is how the programme treats callers and hosts, as the Config says.
type manners struct {
	proxies    []netip.Prefix
	checkEvery time.Duration
	proofFrom  netip.Addr // zero: as the system chooses
	unlimited  bool
}

func (c Config) manners(o Options) (m manners, err error) {
	m.unlimited = o.Unlimited
	if m.proxies, err = c.Proxies(); err != nil {
		return m, err
	}
	if m.checkEvery, err = c.checkEvery(); err != nil {
		return m, err
	}
	if c.ProofAddress == "" {
		return m, nil
	}
	if m.proofFrom, err = netip.ParseAddr(c.ProofAddress); err != nil {
		return m, fmt.Errorf("MYSTERY_PROOF_ADDRESS %q is not an IP address: %w", c.ProofAddress, domain.ErrInvalid)
	}
	return m, nil
}

// hosts returns what answers for hosts. All processes share what it remembers.
func (p *Programme) hosts(o Options) agents.Hosts {
	return agents.Hosts{
		Net: o.Net.From(p.manners.proofFrom), Recent: &tables.Fetches{Pool: p.pool, Now: o.Now},
		About: p.config.bot(),
	}
}

// limits returns what counts the requests of strangers, or nil if nothing does.
func (p *Programme) limits() api.Limits {
	if p.manners.unlimited {
		return nil
	}
	return &tables.Limits{Pool: p.pool}
}

// reads returns what counts the reading of strangers, or nil if nothing does.
func (p *Programme) reads() api.Limits {
	if p.manners.unlimited {
		return nil
	}
	return meter.New(time.Now)
}

// Proxies returns the networks whose X-Forwarded-For is believed.
func (c Config) Proxies() ([]netip.Prefix, error) {
	proxies := make([]netip.Prefix, len(c.TrustedProxies))
	for i, text := range c.TrustedProxies {
		p, err := netip.ParsePrefix(text)
		if a, aErr := netip.ParseAddr(text); aErr == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("MYSTERY_TRUSTED_PROXIES: %q is neither a network such as 10.0.0.0/8 nor an address: %w", text, domain.ErrInvalid)
		}
		proxies[i] = p.Masked()
	}
	return proxies, nil
}

// checkEvery returns the interval at which hosts are looked at.
func (c Config) checkEvery() (time.Duration, error) {
	if c.CheckInterval == "" {
		return time.Hour, nil
	}
	d, err := time.ParseDuration(c.CheckInterval)
	if err != nil || d < 5*time.Minute || d > 24*time.Hour {
		return 0, fmt.Errorf("MYSTERY_CHECK_INTERVAL %q is not a duration from 5m to 24h: %w", c.CheckInterval, domain.ErrInvalid)
	}
	return d, nil
}

// list reads what is separated by commas.
func list(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		items = append(items, strings.TrimSpace(item))
	}
	return slices.DeleteFunc(items, func(item string) bool { return item == "" })
}
