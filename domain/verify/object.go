package verify

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/karatum/mystery/domain"
)

// An object takes a JSON object apart member by member and is strict where
// encoding/json is lenient: names match to the letter, none comes twice, null is
// no value, text is well-formed Unicode, and in the end every member must have
// been asked for. What a checker overlooks or repairs in silence, it has not checked.
//
// The first fault is kept and later calls return zero values; close returns it.
type object struct {
	name    string // of the object in its row, with a dot behind, or empty
	members map[string]json.RawMessage
	err     error
}

// openObject reads data as a single object.
func openObject(data []byte) *object {
	o := &object{}
	switch {
	case !utf8.Valid(data):
		o.fail("the row is not UTF-8")
	case loneSurrogate(data):
		o.fail("the row escapes half of a surrogate pair")
	default:
		o.read(data)
	}
	return o
}

func (o *object) read(data []byte) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		o.fail("%s is not a JSON object", o.title())
		return
	}
	o.members = make(map[string]json.RawMessage)
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			o.fail("%s is not well-formed JSON", o.title())
			return
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			o.fail("the value of %s%s is not well-formed JSON", o.name, name)
			return
		}
		if _, dup := o.members[name]; dup {
			o.fail("%s%s comes twice", o.name, name)
			return
		}
		o.members[name] = value
	}
	if _, err := d.Token(); err != nil {
		o.fail("%s is not well-formed JSON", o.title())
		return
	}
	if _, err := d.Token(); err != io.EOF {
		o.fail("there is something behind the object")
	}
}

func (o *object) title() string {
	if o.name == "" {
		return "the row"
	}
	return o.name[:len(o.name)-1]
}

// fail keeps the first fault.
func (o *object) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf(format+": %w", append(args, domain.ErrInvalid)...)
	}
}

// has reports whether o has a member that nobody has taken yet.
func (o *object) has(name string) bool {
	_, ok := o.members[name]
	return ok
}

// take removes a member from o and decodes it into v, which says what it must be.
func (o *object) take(name, what string, v any) bool {
	if o.err != nil {
		return false
	}
	raw, ok := o.members[name]
	delete(o.members, name)
	switch {
	case !ok:
		o.fail("%s%s is missing", o.name, name)
	case string(raw) == "null" || json.Unmarshal(raw, v) != nil:
		o.fail("%s%s is not %s", o.name, name, what)
	}
	return o.err == nil
}

// text takes a string.
func (o *object) text(name string) (s string) {
	o.take(name, "a string", &s)
	return s
}

// number takes an integer from 0 to limit.
func (o *object) number(name string, limit uint64) (n uint64) {
	if o.take(name, "a whole number", &n) && n > limit {
		o.fail("%s%s is %d and can be %d at most", o.name, name, n, limit)
		return 0
	}
	return n
}

// hash takes 32 bytes.
func (o *object) hash(name string) domain.Hash {
	h, err := domain.ParseHash(o.text(name))
	if err != nil {
		o.fail("%s%s is not 64 lower-case hex digits without 0x", o.name, name)
	}
	return h
}

// hashes takes a list of hashes.
func (o *object) hashes(name string) []domain.Hash {
	var texts []string // an element null becomes "", which is no hash
	o.take(name, "a list of strings", &texts)
	hashes := make([]domain.Hash, len(texts))
	for i, text := range texts {
		h, err := domain.ParseHash(text)
		if err != nil {
			o.fail("%s%s[%d] is not 64 lower-case hex digits without 0x", o.name, name, i)
		}
		hashes[i] = h
	}
	return hashes
}

// object takes an object. Its faults are those of o once it is closed.
func (o *object) object(name string) *object {
	inner := &object{name: o.name + name + "."}
	var raw json.RawMessage
	if o.take(name, "an object", &raw) {
		inner.read(raw)
	} else {
		inner.err = o.err
	}
	return inner
}

// close returns the first fault of o, which may be a member that was not taken: one
// unknown, or one that says again what another member said.
func (o *object) close() error {
	if o.err == nil && len(o.members) > 0 {
		o.fail("%s%s does not belong here", o.name, slices.Min(slices.Collect(maps.Keys(o.members))))
	}
	return o.err
}

// loneSurrogate reports whether data holds a \u escape of one half of a UTF-16
// surrogate pair alone, which encoding/json would turn into U+FFFD.
func loneSurrogate(data []byte) bool {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		i++ // the escaped character, so that \\u is no escape of a code unit
		r, ok := codeUnit(data, i-1)
		if !ok || !utf16.IsSurrogate(r) {
			continue
		}
		low, ok := codeUnit(data, i+5)
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return true
		}
		i += 10
	}
	return false
}

// codeUnit returns the UTF-16 code unit that data escapes at i.
func codeUnit(data []byte, i int) (rune, bool) {
	var unit [2]byte
	if len(data) < i+6 || data[i] != '\\' || data[i+1] != 'u' {
		return 0, false
	}
	if _, err := hex.Decode(unit[:], data[i+2:i+6]); err != nil {
		return 0, false
	}
	return rune(unit[0])<<8 | rune(unit[1]), true
}
