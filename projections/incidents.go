package projections

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/incident"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/maintainer"
)

// Incidents is every incident that was disclosed. What comes before that is sealed and
// never gets here.
var Incidents = Projection{
	Name: "incidents", Version: 1, Visibility: domain.Public, ByStream: true,
	Tables: `
		create table incidents (
			incident  text        primary key,
			consent   text        not null,
			agent     text        not null,
			disclosed timestamptz not null,
			version   bigint      not null, -- of its disclosure in its stream
			data      bytea       not null -- the event that disclosed it
		);
		create table incident_steps ( -- since then
			incident text        not null,
			version  bigint      not null,
			kind     text        not null, -- corrected, recalled or resolved
			made     timestamptz not null,
			data     bytea       not null, -- the event
			primary key (incident, version)
		)`,
	Indexes: `
		create index on incidents (disclosed desc, incident desc);
		create index on incidents (agent, disclosed desc, incident desc);
		create index on incidents (consent)`,
	Apply: applyIncidents,
}

var (
	addIncident = &Change{Table: "incidents", Key: 1, SQL: `
		insert into incidents (incident, consent, agent, disclosed, version, data)
		select * from unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[], $6::bytea[])`}
	addIncidentStep = &Change{Table: "incident_steps", Key: 2, SQL: `
		insert into incident_steps (incident, version, kind, made, data)
		select * from unnest($1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::bytea[])`}
)

func applyIncidents(_ context.Context, tx Tx, r ledger.Record, e domain.Event) error {
	if _, ok := e.(incident.Event); !ok {
		return nil
	}
	data, err := encoded(&r, e)
	if err != nil {
		return err
	}
	step := func(kind string) error {
		return tx.Do(addIncidentStep, r.Stream.ID(), r.Version, kind, r.Time, data)
	}
	switch e := e.(type) {
	case incident.Disclosed:
		return tx.Do(addIncident, e.Opened.Incident, e.Opened.Consent, string(e.Opened.Agent), r.Time, r.Version, data)
	case incident.Corrected:
		return step("corrected")
	case incident.Recalled:
		return step("recalled")
	case incident.Resolved:
		return step("resolved")
	}
	return nil
}

// An Incident is one that was disclosed, and what became of it since.
type Incident struct {
	incident.Disclosed
	Recorded    time.Time // when it was disclosed
	Version     uint64    // of that in its stream
	Event       []byte    // the same as it was hashed
	Corrections []Correction
	Recall      *Step // nil if the certificate was not recalled
	Resolution  *Step // nil while it is not closed
}

// A Step is something that maintainers did.
type Step struct {
	Correction
	Version uint64
}

// An IncidentQuery picks incidents. Its zero fields pick all.
type IncidentQuery struct {
	Agent    agent.Ref
	Consent  string
	Incident string
	After    *IncidentKey // the last one of the page before
	Limit    int
}

// An IncidentKey is a place in the list of incidents.
type IncidentKey struct {
	At       time.Time
	Incident string
}

// Incidents returns the incidents that q picks, latest first.
func (r Reader) Incidents(ctx context.Context, q IncidentQuery) ([]Incident, error) {
	var disclosed *time.Time
	var after IncidentKey
	if q.After != nil {
		after = *q.After
		disclosed = &after.At
	}
	return collect(ctx, r.Pool, scanIncident, `
		select i.disclosed, i.version, i.data,
			array(select version from incident_steps s where s.incident = i.incident order by version),
			array(select kind from incident_steps s where s.incident = i.incident order by version),
			array(select made from incident_steps s where s.incident = i.incident order by version),
			array(select data from incident_steps s where s.incident = i.incident order by version)
		from incidents i
		where ($1 = '' or agent = $1) and ($2 = '' or consent = $2) and ($3 = '' or incident = $3)
		  and ($4::timestamptz is null or (disclosed, incident) < ($4, $5))
		order by disclosed desc, incident desc limit $6`,
		string(q.Agent), q.Consent, q.Incident, disclosed, after.Incident, q.Limit)
}

func scanIncident(row pgx.CollectableRow) (i Incident, err error) {
	var versions []uint64
	var kinds []string
	var made []time.Time
	var steps [][]byte
	if err = row.Scan(&i.Recorded, &i.Version, &i.Event, &versions, &kinds, &made, &steps); err != nil {
		return i, err
	}
	i.Recorded = i.Recorded.UTC()
	if err = domain.Unmarshal(i.Event, &i.Disclosed); err != nil {
		return i, err
	}
	for n, data := range steps {
		var said struct { // the three events have one shape
			Text string                `json:"text"`
			By   []maintainer.Approval `json:"by"`
		}
		if err = domain.Unmarshal(data, &said); err != nil {
			return i, err
		}
		step := Step{Correction{made[n].UTC(), said.Text, said.By}, versions[n]}
		switch kinds[n] {
		case "corrected":
			i.Corrections = append(i.Corrections, step.Correction)
		case "recalled":
			i.Recall = &step
		case "resolved":
			i.Resolution = &step
		}
	}
	return i, nil
}
