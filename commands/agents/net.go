package agents

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/net/publicsuffix"

	"github.com/karatum/mystery/domain"
)

// Limits on the way to an agent and on what comes back.
const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 10 * time.Second
	firstByteTimeout = 30 * time.Second
	gateTimeout      = 5 * time.Second
	finishTimeout    = time.Second // for the rest of a stream whose answer is there
	maxHead          = 64 << 10
	maxHops          = 3
	writeBuffer      = 64 << 10 // more than a request, so that it is one write
	maxURL           = 2048
)

// Net is how the world is reached. With the zero value only https URLs on public
// addresses and the ports 443 and 8443 can be, whatever a name resolves to at the
// moment of the dial. No proxy of the environment is used, for it would dial in
// our place.
type Net struct {
	// Now tells the time for measuring latencies. It must be monotonic and real,
	// also where the programme runs on a virtual clock. Without it latencies are
	// zero.
	Now func() time.Time

	loopback bool
	hosts    map[string]string
	source   netip.Addr     // to dial from; zero: as the system chooses
	roots    *x509.CertPool // nil: those of the system
}

// Loopback returns a Net that also reaches http URLs, addresses in 127.0.0.0/8
// and any port, and dials hosts[a] in place of a fixed a ("host:port"). It is
// for karatum-demo and tests, and no configuration leads here.
func Loopback(now func() time.Time, hosts map[string]string) Net {
	return Net{Now: now, loopback: true, hosts: hosts}
}

// From returns n dialling from a local address. Hosts that have no address of its
// family cannot be reached from it.
func (n Net) From(source netip.Addr) Net {
	n.source = source
	return n
}

// The ports that production may dial.
var ports = []uint16{443, 8443}

// wireServer is an internal service of a cloud on a public address.
var wireServer = netip.MustParsePrefix("168.63.129.16/32")

// errPrivate marks the errors of URLs that point to where we must not go.
var errPrivate = errors.New("not a public address")

func (n Net) guard() *ssrf.Guardian {
	if n.loopback {
		return ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(wireServer),
			ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")))
	}
	return ssrf.New(ssrf.WithPorts(ports...), ssrf.WithDeniedV4Prefixes(wireServer))
}

// CheckURL returns an error matching [domain.ErrInvalid], one sentence that says
// what is wrong, if raw is no URL that an agent may be reached at. Names are not
// resolved: the address behind one is checked at every dial.
func (n Net) CheckURL(raw string) error {
	_, err := n.parse(raw)
	return err
}

func (n Net) parse(raw string) (*url.URL, error) {
	invalid := func(format string, args ...any) (*url.URL, error) {
		return nil, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), domain.ErrInvalid)
	}
	if len(raw) > maxURL {
		return invalid("a URL has at most %d characters", maxURL)
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return invalid("a URL is written in printable ASCII without spaces")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" {
		return invalid("%q is not an absolute URL", raw)
	}
	if u.User != nil {
		return invalid("a URL must not hold a user name or password")
	}
	if strings.Contains(raw, "#") {
		return invalid("a URL must not have a fragment")
	}
	if err := n.checkHost(u.Hostname()); err != nil {
		return nil, err
	}
	switch {
	case u.Scheme == "https", u.Scheme == "http" && n.loopback:
	default:
		return invalid("the scheme of a URL must be https, not %q", u.Scheme)
	}
	port, err := strconv.ParseUint(portOf(u), 10, 16)
	if err != nil || port == 0 {
		return invalid("%q is not a port", portOf(u))
	}
	if !n.loopback && !slices.Contains(ports, uint16(port)) {
		return invalid("the port of a URL must be 443 or 8443, not %d", port)
	}
	return u, nil
}

func (n Net) checkHost(host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" || n.guard().SafeAddr(ip) != nil {
			return fmt.Errorf("%s is %w: %w", host, errPrivate, domain.ErrInvalid)
		}
		return nil
	}
	labels := strings.Split(strings.ToLower(host), ".")
	for _, label := range labels {
		bad := strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		})
		if bad || label == "" || len(label) > 63 || len(host) > 253 {
			return fmt.Errorf("%q is not a host name: %w", host, domain.ErrInvalid)
		}
	}
	last := labels[len(labels)-1]
	// 0x7f.1 and 2130706433 are addresses to some resolvers and names to others.
	if last[0] >= '0' && last[0] <= '9' {
		return fmt.Errorf("%q is neither a host name nor an address in its usual form: %w", host, domain.ErrInvalid)
	}
	if !n.loopback && (len(labels) == 1 || slices.Contains([]string{"localhost", "local", "internal"}, last)) {
		return fmt.Errorf("%s is %w: %w", host, errPrivate, domain.ErrInvalid)
	}
	return nil
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// HostOf returns the host and port of a URL, such as agent.example:443: what a
// consent, a pause and a limit mean by a host. It returns an error matching
// [domain.ErrInvalid] for what is no absolute URL.
func HostOf(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is not an absolute URL: %w", raw, domain.ErrInvalid)
	}
	return hostOf(u), nil
}

// hostOf returns host:port, which is what "the same host" compares.
func hostOf(u *url.URL) string {
	return net.JoinHostPort(strings.ToLower(u.Hostname()), portOf(u))
}

// SameHost reports whether a and b are URLs of one host and port.
func SameHost(a, b *url.URL) bool { return hostOf(a) == hostOf(b) }

// sameSite reports whether a and b are of one registrable domain. What has none,
// such as an address, is the same site as its own host and port only.
func sameSite(a, b *url.URL) bool {
	if SameHost(a, b) {
		return true
	}
	x, errX := site(a)
	y, errY := site(b)
	return errX == nil && errY == nil && x == y
}

func site(u *url.URL) (string, error) {
	host := strings.ToLower(u.Hostname())
	if _, err := netip.ParseAddr(host); err == nil {
		return "", errors.New("an address has no registrable domain")
	}
	return publicsuffix.EffectiveTLDPlusOne(host)
}

// A dialError is the error of a connection that never stood.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// dial connects to addr. The guard sees the address of each attempt after the
// name was resolved, so a name that changes its mind gains nothing.
func (n Net) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if to, ok := n.hosts[addr]; ok {
		addr = to
	}
	d := net.Dialer{Timeout: dialTimeout, Control: n.guard().Safe}
	if n.source.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.source, 0))
	}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, dialError{err}
	}
	return c, nil
}

// dialTLS connects to addr and completes the handshake, offering the protocols
// of ALPN; h2 is never one of them.
func (n Net) dialTLS(ctx context.Context, network, addr string, alpn []string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, dialError{err}
	}
	raw, err := n.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	c := tls.Client(raw, &tls.Config{ServerName: name, NextProtos: alpn, MinVersion: tls.VersionTLS12, RootCAs: n.roots})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, dialError{err}
	}
	return c, nil
}
