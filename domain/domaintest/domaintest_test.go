package domaintest_test

import (
	"testing"
	"testing/fstest"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
)

type openedV1 struct {
	By string `json:"by"`
}

type opened struct {
	Door string `json:"door"`
	By   string `json:"by"`
}

func (openedV1) EventType() domain.Type { return "door.opened.v1" }
func (opened) EventType() domain.Type   { return "door.opened.v2" }

var events = []domain.Entry{
	domain.Upcast(domain.Public, func(e openedV1) opened { return opened{Door: "front", By: e.By} }),
	domain.Current[opened](domain.Public),
}

var examples = fstest.MapFS{
	"door.opened.v1.json": {Data: []byte(`{"by":"Ann"}`)},
	"door.opened.v2.json": {Data: []byte(`{"by":"Ann","door":"back"}` + "\n")},
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, events, examples)
}

func FuzzDecode(f *testing.F) {
	domaintest.FuzzDecode(f, events, examples)
}
