package domain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxReason bounds what stands in public for ever.
const maxReason = 500

// CheckReason returns nil for a reason that people can read: one line of text that is
// not empty. The error matches [ErrInvalid].
func CheckReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return fmt.Errorf("a reason says to everybody why; it must not be empty: %w", ErrInvalid)
	case !utf8.ValidString(reason), strings.ContainsFunc(reason, unicode.IsControl):
		return fmt.Errorf("a reason is one line of text: %w", ErrInvalid)
	case utf8.RuneCountInString(reason) > maxReason:
		return fmt.Errorf("a reason has at most %d characters: %w", maxReason, ErrInvalid)
	}
	return nil
}

// Printable reports whether s is a name of 1 to limit printable ASCII characters, of
// which neither the first nor the last is a blank.
func Printable(s string, limit int) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= limit && strings.Trim(s, " ") == s
}
