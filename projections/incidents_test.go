package projections_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/migrations/pgtest"
	"github.com/karatum/mystery/projections"
)

// What the worker and the operator see of an incident from its beginning, the public
// sees from its disclosure on. A consent with an incident to open is not settled.
func TestIncidents(t *testing.T) {
	t.Parallel()
	var h history
	register(t, &h)
	id := grant(t, &h, honest, "n1")
	f := reached(id, honest, 1, finding.AtEnd, 20514)
	f.GatedVerdict = finding.ExamOnly
	h.add(t, finding.StreamOf(id), f)
	h.add(t, consent.StreamOf(honest), consent.Ended{Consent: id, Reason: consent.Expired})

	pool := pgtest.Open(t)
	r := runnerOn(t, pool, &h, projections.All()...)
	due, reader := projections.Due{Pool: pool}, projections.Reader{Pool: pool}
	look := func(unsettled int, stage incident.Stage, version uint64, public int) {
		t.Helper()
		catchUp(t, r)
		if got := must(due.Consents(t.Context()))(t); len(got) != unsettled {
			t.Errorf("%d consents have something left to do, want %d", len(got), unsettled)
		}
		if got := must(due.Compared(t.Context(), id))(t); got.Confirmed != 1 || got.Incident != stage {
			t.Errorf("Compared = %+v, want a confirmed look 1 and an incident that is %q", got, stage)
		}
		list := must(due.Incidents(t.Context()))(t)
		if stage != incident.None && (len(list) != 1 || list[0].Stage != stage || list[0].Version != version || list[0].Severity != incident.Assess(false)) {
			t.Errorf("Due.Incidents = %+v, want one that is %s at version %d", list, stage, version)
		}
		if got := must(reader.Incidents(t.Context(), projections.IncidentQuery{Limit: 9}))(t); len(got) != public {
			t.Errorf("%d incidents are public, want %d", len(got), public)
		}
	}
	look(1, incident.None, 0, 0)

	stream := incident.StreamOf(incident.ID(id))
	opened := incident.Opened{
		Incident: incident.ID(id), Consent: id, Agent: honest, Look: 1, Severity: incident.Assess(false), ReplyUntil: start.Add(7 * 24 * time.Hour),
	}
	h.add(t, stream, opened)
	look(0, incident.Reported, 1, 0)
	by := []maintainer.Approval{{Name: "Ann", Key: domain.Hash{1}}}
	triaged := incident.Triaged{Verdict: incident.Confirmed, Text: "seen again", By: by}
	h.add(t, stream, incident.ReplyFiled{Look: 1, Commitment: hash("reply")}, triaged)
	look(0, incident.StageConfirmed, 3, 0)
	disclosed := incident.Disclosed{
		Opened: opened, Triaged: triaged, Replies: []incident.ReplyFiled{}, At: start, Text: "heard", By: by, Records: h.sealed(stream),
	}
	h.add(t, stream, disclosed)
	look(0, incident.StageDisclosed, 4, 1)
	h.add(t, stream, incident.Corrected{Text: "two were ours", By: by}, incident.Recalled{Text: "misleads", By: by}, incident.Resolved{Text: "done", By: by})
	look(0, incident.StageResolved, 7, 1)

	got := must(reader.Incidents(t.Context(), projections.IncidentQuery{Agent: honest, Consent: id, Limit: 9}))(t)[0]
	if diff := cmp.Diff(disclosed, got.Disclosed); diff != "" {
		t.Errorf("the disclosure (-want +got):\n%s", diff)
	}
	if len(got.Corrections) != 1 || got.Recall == nil || got.Recall.Text != "misleads" || got.Recall.Version != 6 || got.Resolution == nil || got.Version != 4 {
		t.Errorf("Incidents = %+v", got)
	}
	status := must(reader.Programme(t.Context()))(t)
	if status.Totals.Incidents["medium"] != 1 {
		t.Errorf("totals of incidents are %v", status.Totals.Incidents)
	}
}
