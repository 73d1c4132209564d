// Package producertest signs events as a producer does, for tests.
package producertest

import (
	"bytes"
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/producer"
)

// A Producer signs with a key that follows from its name.
type Producer struct {
	Name    string
	Private ed25519.PrivateKey
}

// KeyID is the name of the key of each Producer.
const KeyID = "2026-10"

// New returns a producer.
func New(name string) Producer {
	seed := domain.Sum([]byte("producer " + name))
	return Producer{name, ed25519.NewKeyFromSeed(seed[:])}
}

// Key returns the public key, which holds in 2026 and 2027.
func (p Producer) Key() producer.Key {
	return producer.Key{
		ID: KeyID, Public: producer.PublicKey(bytes.Clone(p.Private[ed25519.SeedSize:])),
		NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// Registered returns the registration of the producer for all events of some categories
// of streams.
func (p Producer) Registered(categories ...string) producer.Registered {
	r := producer.Registered{Producer: p.Name, Key: p.Key()}
	for _, c := range categories {
		r.Streams = append(r.Streams, c+"/")
		for _, t := range producer.Types() {
			s := producer.State{ID: p.Name, Types: producer.Types(), Streams: []string{c + "/"}}
			if s.May(t, ledger.Stream(c+"/1")) == nil {
				r.Types = append(r.Types, t)
			}
		}
	}
	return r
}

// Signer returns the producer as its client has it.
func (p Producer) Signer() producer.Signer {
	return producer.Signer{Producer: p.Name, Key: KeyID, Private: p.Private}
}

// Sign returns an event as it is on record, with the signature of the producer. id is
// that of the event.
func Sign[E producer.Source](tb testing.TB, p Producer, stream ledger.Stream, id string, e E) E {
	tb.Helper()
	c, err := p.Signer().Sign(stream, e, id, time.Date(2026, 10, 16, 10, 0, 0, 0, time.UTC))
	if err != nil {
		tb.Fatal(err)
	}
	signed, bare, err := c.Signed(p.Name)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := producer.Join(bare, signed)
	if err != nil {
		tb.Fatal(err)
	}
	decoded, err := domain.NewCatalog([]domain.Entry{domain.Current[E](domain.Public)}).Decode(e.EventType(), data)
	if err != nil {
		tb.Fatal(err)
	}
	recorded, ok := decoded.(E)
	if !ok {
		tb.Fatalf("%s became %T", e.EventType(), decoded)
	}
	return recorded
}
