package api

import (
	"context"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/programme"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/terms"
	"github.com/karatum/mystery/projections"
)

type published struct {
	Version uint32      `json:"version"`
	Hash    domain.Hash `json:"hash"`
	Since   time.Time   `json:"since" doc:"When it was published. New consents name the latest."`
}

type pause struct {
	Scope  programme.Scope `json:"scope" doc:"Which tasks are not sent: everything, host/<host:port>, consent/<id>, template/<id>, or identity/<number in the pool>." example:"host/agent.example:443"`
	Since  time.Time       `json:"since"`
	Reason string          `json:"reason"`
}

type operatorKey struct {
	Key     domain.Hash `json:"key" doc:"Stands for an operator secret. A consent names the one that its day keys follow from."`
	Since   time.Time   `json:"since" doc:"When it was registered."`
	Retired *time.Time  `json:"retired,omitempty" doc:"From here on no consent is given under it."`
	Reason  string      `json:"reason,omitempty" doc:"Why it was retired."`
}

type maintainerBody struct {
	Name    string      `json:"name"`
	Key     domain.Hash `json:"key" doc:"Ed25519 public key that steps on incidents and corrections are signed with."`
	Since   time.Time   `json:"since" doc:"When it was registered."`
	Retired *time.Time  `json:"retired,omitempty" doc:"From here on nothing signed with it counts."`
	Reason  string      `json:"reason,omitempty" doc:"Why it was retired."`
}

type setting struct {
	Setting string    `json:"setting" example:"incident_severity"`
	Value   string    `json:"value" example:"medium"`
	Since   time.Time `json:"since"`
}

type catalogue struct {
	Digest domain.Hash `json:"digest" doc:"Of the templates and the grader."`
	Since  time.Time   `json:"since"`
}

// Totals counts what is public.
type Totals struct {
	Consents map[string]int `json:"consents" doc:"By state."`
	Revealed map[string]int `json:"revealed" doc:"Revealed tasks by outcome, or missed or cancelled."`
	Findings map[string]int `json:"findings" doc:"By verdict."`

	Incidents map[string]int `json:"incidents" doc:"Those that were disclosed, by rating."`
}

type demoTotals struct {
	Mark
	Totals
}

type limits struct {
	TasksPerDay           int `json:"tasksPerDay"`
	TasksPerHostAndDay    int `json:"tasksPerHostAndDay" doc:"For one host and port, over all consents."`
	HostPauseSeconds      int `json:"hostPauseSeconds" doc:"Between two tasks for one host and port."`
	TasksPerWeek          int `json:"tasksPerWeek"`
	Endpoints             int `json:"endpoints"`
	MinRevealDelaySeconds int `json:"minRevealDelaySeconds"`
	MaxRevealDelaySeconds int `json:"maxRevealDelaySeconds"`
	MinValidityDays       int `json:"minValidityDays"`
	MaxValidityDays       int `json:"maxValidityDays"`
}

type programmeBody struct {
	AsOf      *time.Time    `json:"asOf,omitempty" doc:"Time of the last public record."`
	Paused    bool          `json:"paused" doc:"While true no task is sent to anybody."`
	Pauses    []pause       `json:"pauses" doc:"Scopes that are paused now. A task in any of them that would be due meanwhile is missed."`
	Terms     *published    `json:"terms,omitempty"`
	Pool      *published    `json:"identityPool,omitempty"`
	Catalogue *catalogue    `json:"catalogue,omitempty"`
	Keys      []operatorKey `json:"operatorKeys" doc:"All that were ever registered, oldest first."`

	Maintainers []maintainerBody `json:"maintainers" doc:"Who may act on incidents and correct findings, oldest first."`
	Settings    []setting        `json:"settings" doc:"Settings that the operator changed and that show in public."`

	Limits     limits             `json:"limits" doc:"Hard limits for one agent, whatever its consent says."`
	Families   []familyBody       `json:"families" doc:"The families of tasks, and the templates that each has now."`
	Thresholds finding.Thresholds `json:"thresholds" doc:"Those that comparisons are made with now; each finding names its own."`
	Links      linksBody          `json:"links" doc:"Where everything else is."`

	Totals    Totals     `json:"totals" doc:"Without Karatum's own agents."`
	DemoTotal demoTotals `json:"demoTotals" doc:"Of Karatum's own agents alone."`
}

type familyBody struct {
	Family    string         `json:"family" example:"unit"`
	Templates []templateBody `json:"templates"`
}

type templateBody struct {
	ID      string `json:"id" example:"unit.length"`
	Version uint32 `json:"version"`
	Example string `json:"example" doc:"A prompt that it has made."`
}

type linksBody struct {
	Terms      string `json:"terms" format:"uri"`
	Consents   string `json:"consents" format:"uri"`
	Findings   string `json:"findings" format:"uri"`
	Incidents  string `json:"incidents" format:"uri"`
	Agents     string `json:"agents" format:"uri"`
	Stats      string `json:"stats" format:"uri"`
	Ledger     string `json:"ledger" format:"uri"`
	Batches    string `json:"batches" format:"uri"`
	Checkpoint string `json:"checkpoint" format:"uri"`
	Document   string `json:"openapi" format:"uri"`
	Page       string `json:"page" format:"uri" doc:"All of this for people."`
	Ethics     string `json:"ethics" format:"uri" doc:"What is held to, and how to stop it, for people."`
	Docs       string `json:"docs" format:"uri" doc:"This interface, for people."`
}

func (s *server) links() linksBody {
	u := s.PublicURL
	return linksBody{
		Terms: u + root + "/terms", Consents: u + root + "/consents", Findings: u + root + "/findings", Incidents: u + root + "/incidents",
		Agents: u + root + "/agents", Stats: u + root + "/stats", Ledger: u + ledgerRoot, Batches: u + ledgerRoot + "/batches",
		Checkpoint: u + "/ledger/checkpoint", Document: u + root + "/openapi.json", Page: u + "/mystery", Ethics: u + "/mystery/ethics", Docs: u + "/docs/api",
	}
}

// families are those of the catalogue, in its order.
func families() (list []familyBody) {
	for _, t := range task.Catalogue() {
		i := slices.IndexFunc(list, func(f familyBody) bool { return f.Family == t.Family })
		if i < 0 {
			i, list = len(list), append(list, familyBody{Family: t.Family})
		}
		list[i].Templates = append(list[i].Templates, templateBody{t.ID, t.Version, t.Example})
	}
	return list
}

type termsVersion struct {
	Version uint32       `json:"version"`
	Hash    domain.Hash  `json:"hash" doc:"SHA-256 of the canonical JSON (RFC 8785) of the list of terms."`
	Terms   []terms.Term `json:"terms"`
}

type poolVersion struct {
	Version    uint32              `json:"version"`
	Hash       domain.Hash         `json:"hash" doc:"SHA-256 of the canonical JSON (RFC 8785) of the list of identities."`
	Identities []identity.Identity `json:"identities"`
}

type termsBody struct {
	Terms     termsVersion `json:"terms" doc:"The latest terms."`
	Pool      poolVersion  `json:"identityPool" doc:"The client identities that tasks come under."`
	Published struct {
		Terms      []published `json:"terms"`
		Pools      []published `json:"identityPools"`
		Catalogues []catalogue `json:"catalogues"`
	} `json:"published" doc:"Everything ever published, oldest first. A consent keeps the versions it names."`
}

func (s *server) registerProgramme(api huma.API) {
	type output[T any] struct{ Body T }
	huma.Register(api, get("get-programme", "", "The programme: what is in force, and how much there is of everything"),
		func(ctx context.Context, _ *struct{}) (*output[programmeBody], error) {
			status, err := s.Reader.Programme(ctx)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &output[programmeBody]{s.programmeOf(status)}, nil
		})
	huma.Register(api, get("get-terms", "/terms", "The terms and the pool of client identities, with their hashes"),
		func(ctx context.Context, _ *struct{}) (*output[termsBody], error) {
			status, err := s.Reader.Programme(ctx)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &output[termsBody]{termsOf(status)}, nil
		})
}

func (s *server) programmeOf(status projections.Status) programmeBody {
	b := programmeBody{
		AsOf: moment(status.AsOf), Paused: status.Paused(), Pauses: []pause{}, Keys: []operatorKey{},
		Maintainers: []maintainerBody{}, Settings: []setting{},
		Limits: limits{
			TasksPerDay: consent.MaxPerDay, TasksPerHostAndDay: consent.MaxPerHost, HostPauseSeconds: int(consent.HostPause / time.Second), TasksPerWeek: consent.MaxPerWeek, Endpoints: consent.MaxEndpoints,
			MinRevealDelaySeconds: int(consent.MinRevealDelay / time.Second), MaxRevealDelaySeconds: int(consent.MaxRevealDelay / time.Second),
			MinValidityDays: consent.MinValidity, MaxValidityDays: consent.MaxValidity,
		},
		Families: families(), Thresholds: finding.CurrentThresholds(), Links: s.links(),
		Totals:    Totals(status.Totals),
		DemoTotal: demoTotals{markOf(true), Totals(status.Demo)},
	}
	for _, p := range status.Pauses {
		b.Pauses = append(b.Pauses, pause{p.Scope, p.Since, p.Reason})
	}
	for _, k := range status.Keys {
		b.Keys = append(b.Keys, operatorKey{k.Key, k.Since, moment(k.Retired), k.Reason})
	}
	for _, m := range status.Maintainers {
		b.Maintainers = append(b.Maintainers, maintainerBody{m.Name, m.Key, m.Since, moment(m.Retired), m.Reason})
	}
	for _, set := range status.Settings {
		b.Settings = append(b.Settings, setting{string(set.Setting), set.Value, set.Since})
	}
	if n := len(status.Terms); n > 0 {
		b.Terms = &published{status.Terms[n-1].Number, status.Terms[n-1].Hash, status.Terms[n-1].Since}
	}
	if n := len(status.Pools); n > 0 {
		b.Pool = &published{status.Pools[n-1].Number, status.Pools[n-1].Hash, status.Pools[n-1].Since}
	}
	if n := len(status.Catalogues); n > 0 {
		b.Catalogue = &catalogue{status.Catalogues[n-1].Hash, status.Catalogues[n-1].Since}
	}
	return b
}

func termsOf(s projections.Status) (b termsBody) {
	current := terms.Current()
	b.Terms = termsVersion{current.Number, current.Hash(), current.Terms}
	b.Pool = poolVersion{identity.Version(), identity.Hash(), identity.Pool()}
	b.Published.Terms, b.Published.Pools, b.Published.Catalogues = []published{}, []published{}, []catalogue{}
	for _, v := range s.Terms {
		b.Published.Terms = append(b.Published.Terms, published{v.Number, v.Hash, v.Since})
	}
	for _, v := range s.Pools {
		b.Published.Pools = append(b.Published.Pools, published{v.Number, v.Hash, v.Since})
	}
	for _, v := range s.Catalogues {
		b.Published.Catalogues = append(b.Published.Catalogues, catalogue{v.Hash, v.Since})
	}
	return b
}
