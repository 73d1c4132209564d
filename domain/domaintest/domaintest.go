// Package domaintest checks that what has been written to the ledger stays
// readable. For each type of event there is an example of its bytes, which never
// changes once a release has written the type; [Wire] and [FuzzDecode] hold the
// code against the examples, [Decide] a decider against its table. The test of the
// bytes of an aggregate is three lines:
//
//	func TestWire(t *testing.T) {
//		domaintest.Wire(t, consent.Events, os.DirFS("testdata"))
//	}
package domaintest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"regexp"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/karatum/mystery/domain"
)

// A wire name is "<package>.<fact>.v<version>"; its example is "<name>.json".
var (
	wireName = regexp.MustCompile(`^[a-z]+\.[a-z_]+\.v[1-9][0-9]*$`)
	example  = regexp.MustCompile(`^([a-z]+\.[a-z_]+\.v[1-9][0-9]*)\.json$`)
)

// Wire checks the golden wire bytes of the types in events. It demands of each
// type an example in dir, of each example a type, and that a current event
// encodes to just the bytes that it was decoded from. An example holds the
// canonical JSON of one event; a newline at its end is not part of it.
func Wire(t *testing.T, events []domain.Entry, dir fs.FS) {
	t.Helper()
	catalog := domain.NewCatalog(events)
	for typ := range catalog.Types() {
		t.Run(string(typ), func(t *testing.T) { wire(t, catalog, typ, dir) })
	}
	files, err := fs.Glob(dir, "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		m := example.FindStringSubmatch(file)
		if m == nil {
			continue
		}
		if _, ok := catalog[domain.Type(m[1])]; !ok {
			t.Errorf("%s is the example of a type that can no longer be read", file)
		}
	}
}

func wire(t *testing.T, catalog domain.Catalog, typ domain.Type, dir fs.FS) {
	t.Helper()
	if !wireName.MatchString(string(typ)) {
		t.Errorf("type %q is not named package.fact.vN", typ)
	}
	data, err := read(dir, typ)
	if err != nil {
		t.Fatalf("type %s has no example: %v", typ, err)
	}
	if canonical, err := jcs.Transform(data); err != nil {
		t.Fatalf("%s.json: %v", typ, err)
	} else if !bytes.Equal(canonical, data) {
		t.Errorf("%s.json is not canonical, want\n%s", typ, canonical)
	}
	e, err := catalog.Decode(typ, data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := domain.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	if e.EventType() == typ {
		if !bytes.Equal(got, data) {
			t.Errorf("Encode(Decode(%s.json)) =\n%s\nwant\n%s", typ, got, data)
		}
		return
	}
	// A retired shape reads as an event that can still be written.
	if _, err := catalog.Decode(e.EventType(), got); err != nil {
		t.Errorf("%s reads as %s, which does not decode: %v", typ, e.EventType(), err)
	}
}

// FuzzDecode feeds a catalog of events with arbitrary bytes, beginning with the
// examples in dir. Decoding must refuse them or give an event whose encoding,
// where it can be read, reads as the same event.
func FuzzDecode(f *testing.F, events []domain.Entry, dir fs.FS) {
	f.Helper()
	catalog := domain.NewCatalog(events)
	f.Add("domain.unknown.v1", []byte(`{}`))
	for typ := range catalog.Types() {
		f.Add(string(typ), []byte(`{}`))
		if data, err := read(dir, typ); err == nil {
			f.Add(string(typ), data)
		}
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		typ := domain.Type(name)
		e, err := catalog.Decode(typ, data)
		if _, known := catalog[typ]; !known {
			if !errors.Is(err, domain.ErrUnknownType) {
				t.Fatalf("Decode(%q) = %v, want ErrUnknownType", typ, err)
			}
			return
		}
		if err != nil {
			return
		}
		first, err := domain.Encode(e)
		if err != nil || inexact(first) {
			return // such as a time in the year 10000
		}
		again, err := catalog.Decode(e.EventType(), first)
		if err != nil {
			return // a field that was left out may have no valid zero, such as a signature
		}
		second, err := domain.Encode(again)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Fatalf("%s does not survive a second round:\n%s\n%s", typ, first, second)
		}
	})
}

func read(dir fs.FS, typ domain.Type) ([]byte, error) {
	data, err := fs.ReadFile(dir, string(typ)+".json")
	return bytes.TrimSuffix(data, []byte("\n")), err
}

// inexact reports whether data holds a number of 2^53 or more, which RFC 8785
// may have rounded. Aggregates keep their numbers below that; arbitrary input
// does not.
func inexact(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if n, ok := token.(json.Number); ok {
			if f, err := n.Float64(); err != nil || math.Abs(f) >= 1<<53 {
				return true
			}
		}
	}
}
