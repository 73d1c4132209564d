package kurrentdb_test

import (
	"testing"
	"time"

	"github.com/karatum/mystery/commands/eventlog/kurrentdb"
	"github.com/karatum/mystery/commands/eventlog/kurrentdb/double"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/ledger/ledgertest"
)

type noted struct{ N int }

func (noted) EventType() domain.Type { return "kurrentdb.noted.v1" }

type written struct{ Text string }

func (written) EventType() domain.Type { return "kurrentdb.written.v1" }

func command(id string) ledger.Meta { return ledger.Meta{Actor: "tester", Command: id} }

// cluster returns a new cluster of the given size.
func cluster(t *testing.T, nodes int) *double.Cluster {
	t.Helper()
	c, err := double.New(t.Context(), double.Options{Now: time.Now, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// open returns a log in the database at url.
func open(t *testing.T, url string, o kurrentdb.Options) *kurrentdb.Log {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	log, err := kurrentdb.New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

func TestLog(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string]int{"one node": 1, "three nodes": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.Run(t, func(t *testing.T) ledger.Log {
				t.Helper()
				return open(t, cluster(t, nodes).URL(), kurrentdb.Options{})
			})
		})
	}
}
