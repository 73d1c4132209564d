package domain

import (
	"errors"
	"strings"
)

// Kinds of refusal. An error wraps at most one of them by %w and says the rest
// in one sentence for people. The api package maps each kind to one HTTP status;
// everything that is none of them is an internal error and is not shown to the
// caller.
var (
	ErrConflict        = errors.New("conflict")
	ErrForbidden       = errors.New("forbidden")
	ErrInvalid         = errors.New("invalid")
	ErrMalformed       = errors.New("malformed") // cannot be read; invalid is what can, and breaks a rule
	ErrNotFound        = errors.New("not found")
	ErrUnauthenticated = errors.New("unauthenticated")
	ErrUnavailable     = errors.New("unavailable")
	ErrUnknownType     = errors.New("unknown event type")
)

// Sentence returns what err says to people: its text without the kind at the end,
// which is for programs.
func Sentence(err error) string {
	text := err.Error()
	for _, kind := range []error{
		ErrConflict, ErrForbidden, ErrInvalid, ErrMalformed, ErrNotFound, ErrUnauthenticated, ErrUnavailable, ErrUnknownType,
	} {
		if errors.Is(err, kind) {
			text = strings.TrimSuffix(text, ": "+kind.Error())
		}
	}
	return text
}
