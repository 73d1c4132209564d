package explorer

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// securityLife is how far ahead security.txt expires. RFC 9116, section 2.5.5,
// asks for less than a year.
const securityLife = 180 * 24 * time.Hour

// security serves security.txt (RFC 9116). It expires at a midnight, so that it
// reads the same all day.
func (p *Pages) security(w http.ResponseWriter, _ *http.Request) {
	const day = 24 * time.Hour
	expires := p.config.Now().UTC().Truncate(day).Add(securityLife)
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	line("Contact", p.config.Facts.Abuse)
	line("Expires", expires.Format(time.RFC3339))
	line("Preferred-Languages", "en")
	// These must be https (sections 2.5.2 and 2.5.7), which a service on somebody's
	// own machine is not.
	if strings.HasPrefix(p.config.PublicURL, "https://") {
		line("Canonical", p.config.PublicURL+"/.well-known/security.txt")
		line("Policy", p.config.PublicURL+"/mystery/ethics#report")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(b.String())) // the client may be gone
}
