package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/migrations/pgtest"
)

// A worker dies at each step between a finding and the disclosure of what it leads to,
// before or after that was made durable. The one that follows, which knows nothing but the
// ledger, goes on where it was: there is one incident, with each step once, as grave as the
// operator's setting makes it.
func TestKilledBetweenFindingAndIncident(t *testing.T) {
	inOrder(t)
	t.Parallel()
	for name, persisted := range map[string]bool{"before it is durable": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := flags{seed: "71", listen: "127.0.0.1:0"}
			start, err := f.start(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			settings := map[string]string{"MYSTERY_DATABASE_URL": pgtest.URL(t), "MYSTERY_INCIDENT_SEVERITY": "high"}
			s, err := openStage(t.Context(), f, start, func(name string) string { return settings[name] }, progress{w: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.close)
			consents, err := s.enrol(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range agentNames { // both were compared, and one was caught
				s.found(t, plan.ConsentID(consents[name].Nonce), name, []finding.Verdict{finding.Consistent, finding.ExamOnly}[i])
			}

			log := &dyingLog{Log: s.prog.Service.Log, persisted: persisted, died: make(map[domain.Type]bool)}
			s.prog.Service.Log = log
			s.stumble(t, .1, true)
			want := []domain.Type{"incident.opened.v1", "incident.triaged.v1", "incident.disclosed.v1"}
			if len(log.died) != len(want) {
				t.Errorf("the worker died at %v, want each of %v", log.died, want)
			}
			types := make(map[ledger.Stream][]domain.Type)
			for r := range s.decoded(t, s.prog.Service.Log.After(t.Context(), 0)) {
				if r.Stream.Category() == "incident" {
					types[r.Stream] = append(types[r.Stream], r.Type)
				}
			}
			caught := incident.StreamOf(incident.ID(plan.ConsentID(consents["exam-aware"].Nonce)))
			if len(types) != 1 || !slices.Equal(types[caught], want) {
				t.Errorf("incidents are %v, want %s alone with %v", types, caught, want)
			}

			// What the demo prints of it.
			got, err := s.incidents(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			grave := incidentReport{
				"exam-aware", "7.0", "CVSS:4.0/AV:N/AC:L/AT:N/PR:L/UI:P/VC:N/VI:L/VA:N/SC:N/SI:H/SA:L/E:P/MVI:H", "high", "disclosed",
			}
			if len(got) != 1 || got[0] != grave {
				t.Errorf("incidents are %+v, want %+v alone", got, grave)
			}
		})
	}
}

// found puts a first comparison on record that came to a verdict, behind the gate too.
func (s *stage) found(t *testing.T, consentID, name string, verdict finding.Verdict) {
	t.Helper()
	var e finding.Reached
	data, err := os.ReadFile("../../domain/finding/testdata/finding.reached.v1.json")
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.Consent, e.Agent, e.Demo, e.Day, e.Look, e.Verdict, e.GatedVerdict = consentID, agent.Ref("build:"+name), true, 1, 1, verdict, verdict
	m := ledger.Meta{Actor: "worker", Command: "compare " + name}
	if err := s.prog.Service.Finding(t.Context(), m, consentID, finding.Reach(e)); err != nil {
		t.Fatal(err)
	}
}

// A dyingLog fails the first append of each kind of event to incidents.
type dyingLog struct {
	ledger.Log

	persisted bool
	died      map[domain.Type]bool
}

func (l *dyingLog) Append(ctx context.Context, s ledger.Stream, version uint64, m ledger.Meta, events ...domain.Event) error {
	kind := events[0].EventType()
	if !strings.HasPrefix(string(kind), "incident.") || l.died[kind] {
		return l.Log.Append(ctx, s, version, m, events...)
	}
	l.died[kind] = true
	if l.persisted {
		if err := l.Log.Append(ctx, s, version, m, events...); err != nil {
			return err
		}
	}
	return fmt.Errorf("append to %s: the database went away: %w", s, domain.ErrUnavailable)
}
