package domain

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// Canonical returns the RFC 8785 canonical JSON of v.
func Canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	s := sorter{src: raw, dst: make([]byte, 0, len(raw))}
	if utf8.Valid(raw) && s.value() && s.at == len(raw) { // else what a json.RawMessage holds
		return s.dst, nil
	}
	return jcs.Transform(raw)
}

// CutCanonical returns a copy of the JSON value that data begins with, and what stands
// behind it, if that value is canonical. It reports false for any other, and for a few that
// it takes too long to tell of.
func CutCanonical(data []byte) (value, rest []byte, ok bool) {
	s := sorter{src: data, dst: make([]byte, 0, extent(data))}
	if !s.value() || !bytes.Equal(s.dst, data[:s.at]) || !utf8.Valid(s.dst) {
		return nil, nil, false
	}
	return s.dst, data[s.at:], true
}

// extent returns how long the object or array is that data begins with, roughly if it is
// not well-formed.
func extent(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1
			}
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		}
	}
	return len(data)
}

// A sorter copies JSON as [json.Marshal] writes it, without white space, and puts the
// members of each object in order. That is all there is to do about most events: their
// names are ASCII, their numbers whole, and they hold no text that the two forms write
// in different ways. At anything else it gives up.
type sorter struct {
	src []byte
	at  int // in src
	dst []byte
}

// value copies one value, and reports false if it has given up.
func (s *sorter) value() bool {
	if s.at >= len(s.src) {
		return false
	}
	switch c := s.src[s.at]; {
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	case c == '"':
		_, ok := s.text()
		return ok
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.src[s.at:], []byte(word)) {
			s.dst = append(s.dst, word...)
			s.at += len(word)
			return true
		}
	}
	return false
}

// next consumes c if it stands here.
func (s *sorter) next(c byte) bool {
	if s.at < len(s.src) && s.src[s.at] == c {
		s.at++
		return true
	}
	return false
}

// text copies a string and returns what is between its quotes. The two-character
// escapes of package json are those of RFC 8785; its \u and four digits are not.
func (s *sorter) text() (content []byte, ok bool) {
	from := s.at
	for i := from + 1; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c < 0x20:
			return nil, false
		case c == '"':
			s.at = i + 1
			s.dst = append(s.dst, s.src[from:s.at]...)
			return s.src[from+1 : i], true
		case c == '\\':
			if i++; i >= len(s.src) || !strings.ContainsRune(`"\bfnrt`, rune(s.src[i])) {
				return nil, false
			}
		}
	}
	return nil, false
}

// exactDigits is how many digits a whole number may have so that a double holds every
// such number (RFC 8785, section 3.2.2.3).
const exactDigits = 15

// number copies a whole number.
func (s *sorter) number() bool {
	from := s.at
	s.next('-')
	digits := s.at
	for s.at < len(s.src) && s.src[s.at] >= '0' && s.src[s.at] <= '9' {
		s.at++
	}
	n := s.at - digits
	if n == 0 || n > exactDigits || s.src[digits] == '0' && s.at-from > 1 {
		return false
	}
	if s.at < len(s.src) && (s.src[s.at] == '.' || s.src[s.at]|0x20 == 'e') {
		return false
	}
	s.dst = append(s.dst, s.src[from:s.at]...)
	return true
}

func (s *sorter) array() bool {
	s.at++
	s.dst = append(s.dst, '[')
	if s.next(']') {
		s.dst = append(s.dst, ']')
		return true
	}
	for s.value() {
		switch {
		case s.next(','):
			s.dst = append(s.dst, ',')
		case s.next(']'):
			s.dst = append(s.dst, ']')
			return true
		default:
			return false
		}
	}
	return false
}

// A member is one of an object, as it stands in dst behind the place of its name.
type member struct {
	name     []byte
	from, to int // in dst
}

func (s *sorter) object() bool {
	s.at++
	s.dst = append(s.dst, '{')
	if s.next('}') {
		s.dst = append(s.dst, '}')
		return true
	}
	begin := len(s.dst)
	var few [24]member
	members := few[:0]
	sorted := true
	for {
		m := member{from: len(s.dst)}
		if s.at >= len(s.src) || s.src[s.at] != '"' {
			return false
		}
		var ok bool
		if m.name, ok = s.text(); !ok || !plain(m.name) || !s.next(':') {
			return false
		}
		s.dst = append(s.dst, ':')
		if !s.value() {
			return false
		}
		m.to = len(s.dst)
		if n := len(members); n > 0 && bytes.Compare(members[n-1].name, m.name) >= 0 {
			sorted = false
		}
		members = append(members, m)
		if s.next('}') {
			break
		}
		if !s.next(',') {
			return false
		}
		s.dst = append(s.dst, ',')
	}
	if !sorted && !s.sort(begin, members) {
		return false
	}
	s.dst = append(s.dst, '}')
	return true
}

// plain reports whether a name is of letters that sort by their bytes as they do by the
// code units of UTF-16 (RFC 8785, section 3.2.3).
func plain(name []byte) bool {
	for _, c := range name {
		if c >= 0x80 || c == '\\' {
			return false
		}
	}
	return true
}

// sort puts the members that stand in dst from begin on in order. It reports false if
// two have one name, which is no canonical JSON at all.
func (s *sorter) sort(begin int, members []member) bool {
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	old := slices.Clone(s.dst[begin:])
	s.dst = s.dst[:begin]
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(members[i-1].name, m.name) {
				return false
			}
			s.dst = append(s.dst, ',')
		}
		s.dst = append(s.dst, old[m.from-begin:m.to-begin]...)
	}
	return true
}
