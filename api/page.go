package api

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/karatum/mystery/domain"
)

// Patterns of ids. They stand in tags too, which take no constants.
var consentID = regexp.MustCompile(`^cns_[a-z2-7]{20}$`)

// A cursor is opaque to clients: the key of the last item of a page. It says
// nothing that the item did not.
func encodeCursor(key any) (string, error) {
	data, err := domain.Canonical(key)
	return base64.RawURLEncoding.EncodeToString(data), err
}

// decodeCursor reads a cursor into key. It returns nil for "", which is the first
// page, and [domain.ErrInvalid] for what was no cursor of this list.
func decodeCursor[K interface{ valid() bool }](cursor string) (*K, error) {
	if cursor == "" {
		return nil, nil
	}
	key := new(K)
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || domain.Unmarshal(data, key) != nil || !(*key).valid() {
		return nil, fmt.Errorf("this is not a cursor of this list; take it from the page before: %w", domain.ErrInvalid)
	}
	return key, nil
}

// pageOf cuts the items of a query that asked for one more than limit. If there
// was one more, it returns the cursor behind the last one kept.
func pageOf[T any](items []T, limit int, key func(T) any) (kept []T, next string, err error) {
	if len(items) <= limit {
		return items, "", nil
	}
	kept = items[:limit]
	next, err = encodeCursor(key(kept[limit-1]))
	return kept, next, err
}

// nextLink is the Link header (RFC 8288) to the page at cursor, "" for none.
func nextLink(path, cursor string, limit int, filters map[string]string) string {
	if cursor == "" {
		return ""
	}
	q := url.Values{"cursor": {cursor}, "limit": {strconv.Itoa(limit)}}
	for name, value := range filters {
		if value != "" {
			q.Set(name, value)
		}
	}
	return fmt.Sprintf(`<%s%s?%s>; rel="next"`, root, path, q.Encode())
}

// A Mark is on everything about one of Karatum's own agents, which are built to be
// looked at.
type Mark struct {
	Demo  bool   `json:"demo,omitempty" doc:"True if this is about one of Karatum's own agents."`
	Label string `json:"label,omitempty" enum:"DEMO" doc:"DEMO where demo is true."`
}

func markOf(demo bool) Mark {
	if !demo {
		return Mark{}
	}
	return Mark{Demo: true, Label: "DEMO"}
}

// moment is a time that may be absent.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
