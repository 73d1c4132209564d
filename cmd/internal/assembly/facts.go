package assembly

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/karatum/mystery/api/explorer"
	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
)

// Abuse returns the URI that abuse is reported at.
func (c Config) Abuse() (string, error) {
	if c.AbuseContact == "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil {
			return "", fmt.Errorf("MYSTERY_PUBLIC_URL %q cannot be read: %w", c.PublicURL, domain.ErrInvalid)
		}
		return "mailto:abuse@" + u.Hostname(), nil
	}
	u, err := url.Parse(c.AbuseContact)
	switch {
	case err != nil, strings.ContainsFunc(c.AbuseContact, func(r rune) bool { return r <= ' ' || r > '~' }):
	case u.Scheme == "mailto" && strings.Contains(u.Opaque, "@"), u.Scheme == "https" && u.Host != "":
		return c.AbuseContact, nil
	}
	return "", fmt.Errorf("MYSTERY_ABUSE_CONTACT %q is neither mailto: and an address nor an https URL: %w", c.AbuseContact, domain.ErrInvalid)
}

// bot returns the address of the page about KaratumBot.
func (c Config) bot() string { return strings.TrimSuffix(c.PublicURL, "/") + "/bot" }

// facts returns what pages tell of how the programme is run.
func (p *Programme) facts() explorer.Facts {
	return explorer.Facts{
		Abuse: p.abuse, Bot: agents.BotUserAgent(p.config.bot()), TasksPerHost: consent.MaxPerHost, CheckEvery: p.manners.checkEvery, Demo: p.demo,
	}
}
