package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/commands"
)

// This file keeps strangers from asking without end. Nothing is stored of a challenge,
// but making one reads the ledger and may read a chain; to read costs less, and much
// more of it may be done.

// Limits counts what strangers ask for. Take charges one to each quota or, if one
// is used up, none.
type Limits interface {
	Take(ctx context.Context, quotas []commands.Quota) (commands.Spent, error)
}

// A caller is who sent a request, and the header of the answer to it.
type caller struct {
	address netip.Addr
	answer  http.Header
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller) // zero outside a request
	return c
}

// locate finds out who calls.
func (s *server) locate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := caller{clientOf(r, s.Proxies), w.Header()}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// clientOf returns the address that a request comes from: that of the peer, unless
// it is one of our proxies. Then it is the last entry of X-Forwarded-For that none
// of them is behind, as each appends who called it. What callers wrote themselves
// stands before it and counts for nothing. The zero Addr stands for all whose
// address cannot be told.
func clientOf(r *http.Request, proxies []netip.Prefix) netip.Addr {
	client := addressOf(r.RemoteAddr)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		ours := slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(client) })
		before := addressOf(strings.TrimSpace(hop))
		if !ours || !before.IsValid() {
			break
		}
		client = before
	}
	return client
}

// addressOf reads an address with or without a port.
func addressOf(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil {
		p, _ := netip.ParseAddrPort(text) // else zero
		a = p.Addr()
	}
	return a.Unmap().WithZone("")
}

// spend charges a request to quotas and tells the caller what is left. It returns
// the problem of a request that is one too many.
func (s *server) spend(ctx context.Context, limits Limits, quotas []commands.Quota) error {
	if limits == nil {
		return nil
	}
	spent, err := limits.Take(ctx, quotas)
	if err != nil {
		return s.fail(ctx, err)
	}
	h := callerOf(ctx).answer
	for i, q := range quotas {
		h.Add(headerPolicy, fmt.Sprintf("%q;q=%d;w=%d", q.Name, q.Limit, seconds(q.Window)))
		h.Add(headerLimit, fmt.Sprintf("%q;r=%d;t=%d", q.Name, spent.Left[i].Remaining, seconds(spent.Left[i].Reset)))
	}
	if spent.OK {
		return nil
	}
	wait := max(seconds(spent.Wait()), 1)
	h.Set("Retry-After", strconv.Itoa(wait))
	return newProblem(ctx, http.StatusTooManyRequests,
		fmt.Sprintf("too many requests came from your network; ask again in %d seconds", wait))
}

// bound charges every request below /v1 that reads to its network.
func (s *server) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if s.Reads != nil && reads && strings.HasPrefix(r.URL.Path, "/v1/") {
			if p := new(Problem); errors.As(s.spend(r.Context(), s.Reads, commands.ReadQuotas(callerOf(r.Context()).address)), &p) {
				s.turnAway(w, r, p)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// The headers of draft-ietf-httpapi-ratelimit-headers: what is allowed, and what is
// left of it.
const (
	headerPolicy = "RateLimit-Policy"
	headerLimit  = "RateLimit"
)

// seconds rounds up, so that who waits for so long has waited long enough.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// limited describes an operation that draws on quotas.
func limited(op huma.Operation) huma.Operation {
	op.Description = "Limited by client address, an IPv6 one counting as its /64. What is too much is answered with 429, " +
		"and Retry-After says when to ask again."
	op.Errors = append(op.Errors, http.StatusTooManyRequests)
	op.Responses = map[string]*huma.Response{strconv.Itoa(op.DefaultStatus): {Headers: limitHeaders("grant-address", "q=20;w=3600", "r=19;t=3600")}}
	return op
}

// limitHeaders describes the headers that tell of limits, with an example of one.
func limitHeaders(name, policy, left string) map[string]*huma.Header {
	text := &huma.Schema{Type: huma.TypeString}
	return map[string]*huma.Header{
		headerPolicy: {Schema: text, Description: "What each limit allows, as of draft-ietf-httpapi-ratelimit-headers.", Example: fmt.Sprintf("%q;%s", name, policy)},
		headerLimit:  {Schema: text, Description: "What is left of each limit, and when there is more.", Example: fmt.Sprintf("%q;%s", name, left)},
	}
}
