package plan_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

const consentID = "cns_evmwdbivcm7gsejx5jq2"

const daysSchema = `{"type":"object","properties":{"date":{"type":"string"},"days":{"type":"integer"}},"required":["date","days"]}`

// offers are two endpoints; on each something has no task.
func offers() []plan.Offer {
	return []plan.Offer{
		{ID: "ep_1", Surface: task.Surface{Kind: task.MCP, Tools: []task.Tool{
			{Name: "sha256", InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)},
			{Name: "add_days", InputSchema: json.RawMessage(daysSchema)},
			{Name: "delete_account", InputSchema: json.RawMessage(`{"type":"object"}`)},
		}}},
		{ID: "ep_0", Surface: task.Surface{Kind: task.A2A, Skills: []task.Skill{
			{ID: "unit-convert", Name: "Unit conversion"},
			{ID: "convert-units", Name: "Convert units"},
			{ID: "percent", Name: "Percentages"},
			{ID: "poetry", Name: "Poetry"},
		}}},
	}
}

func seedOf(n uint32) domain.Hash { return domain.Sum(binary.BigEndian.AppendUint32(nil, n)) }

func TestEligibleOf(t *testing.T) {
	t.Parallel()
	units := plan.EligibleTemplate{ID: "unit.convert", Version: 1, Entries: []string{"convert-units", "unit-convert"}}
	percentages := []plan.EligibleTemplate{
		{ID: "arith.percent_change", Version: 1, Entries: []string{"percent"}},
		{ID: "arith.percent_of", Version: 1, Entries: []string{"percent"}},
	}
	tools := []plan.EligibleTemplate{
		{ID: "date.add_days", Version: 1, Entries: []string{"add_days"}},
		{ID: "hash.sha256", Version: 1, Entries: []string{"sha256"}},
	}
	on := func(endpoint string, r plan.Reason, names ...string) plan.Note {
		return plan.Note{Endpoint: endpoint, Reason: r, Count: len(names), Names: names}
	}
	notes := []plan.Note{on("ep_0", "no_task", "poetry"), on("ep_1", "changes_state", "delete_account")}
	blocks := []plan.Offer{{ID: "ep_0", Surface: task.Surface{Kind: task.A2A, Skills: []task.Skill{
		{ID: "block-explorer"}, {ID: "units", Tags: []string{"unit conversion", "block hash"}},
	}}}}
	sale := []plan.Offer{{ID: "ep_0", Surface: task.Surface{Kind: task.X402, Sales: []task.Sale{{}}}}}
	for _, tt := range []struct {
		name   string
		offers []plan.Offer
		skills []string
		means  plan.Means
		want   []plan.EligibleEndpoint
		notes  []plan.Note
	}{
		{name: "everything", offers: offers(), want: []plan.EligibleEndpoint{
			{ID: "ep_0", Templates: append(slices.Clone(percentages), units)},
			{ID: "ep_1", Templates: tools},
		}, notes: notes},
		{name: "one endpoint of two", offers: offers(), skills: []string{"add_days"}, want: []plan.EligibleEndpoint{
			{ID: "ep_1", Templates: tools[:1]},
		}, notes: []plan.Note{
			on("ep_0", "skill_left_out", "unit-convert", "convert-units", "percent", "poetry"),
			on("ep_1", "skill_left_out", "sha256", "delete_account"),
		}},
		{name: "one skill of an endpoint", offers: offers()[1:], skills: []string{"convert-units", "percent", "poetry"}, want: []plan.EligibleEndpoint{
			{ID: "ep_0", Templates: append(slices.Clone(percentages), plan.EligibleTemplate{
				ID: "unit.convert", Version: 1, Entries: []string{"convert-units"},
			})},
		}, notes: []plan.Note{on("ep_0", "skill_left_out", "unit-convert"), on("ep_0", "no_task", "poetry")}},
		{name: "a skill by its name", offers: offers()[1:], skills: []string{"Percentages"}, want: []plan.EligibleEndpoint{
			{ID: "ep_0", Templates: percentages},
		}, notes: []plan.Note{on("ep_0", "skill_left_out", "unit-convert", "convert-units", "poetry")}},
		{name: "a skill that nobody shows", offers: offers()[:1], skills: []string{"chess"}, notes: []plan.Note{
			on("ep_1", "skill_left_out", "sha256", "add_days", "delete_account"),
		}},
		{name: "no endpoint"},
		{name: "endpoints that show nothing", offers: []plan.Offer{{ID: "ep_0"}, {ID: "ep_1", Surface: task.Surface{Kind: task.MCP}}}, notes: []plan.Note{
			{Endpoint: "ep_0", Reason: plan.NothingOffered}, {Endpoint: "ep_1", Reason: plan.NothingOffered},
		}},
		{name: "endpoints of which nothing is known", offers: []plan.Offer{{ID: "ep_0", LeftOut: true}, {ID: "ep_1", Unread: true, Cause: "no_card"}}, notes: []plan.Note{
			{Endpoint: "ep_0", Reason: plan.KindLeftOut}, {Endpoint: "ep_1", Reason: plan.Unread, Cause: "no_card"},
		}},
		{name: "a skill without an id", offers: []plan.Offer{{ID: "ep_0", Surface: task.Surface{Kind: task.A2A, Skills: []task.Skill{
			{Name: "Percentages"},
		}}}}, want: []plan.EligibleEndpoint{
			{ID: "ep_0", Templates: []plan.EligibleTemplate{
				{ID: "arith.percent_change", Version: 1, Entries: []string{"Percentages"}},
				{ID: "arith.percent_of", Version: 1, Entries: []string{"Percentages"}},
			}},
		}},
		{name: "for sale with nobody to pay", offers: sale, notes: []plan.Note{{Endpoint: "ep_0", Reason: plan.NoPayer}}},
		{name: "for sale", offers: sale, means: plan.Means{Pays: true}, want: []plan.EligibleEndpoint{
			{ID: "ep_0", Templates: []plan.EligibleTemplate{{ID: "x402.pay", Version: 1, Entries: []string{"resource"}}}},
		}},
		{name: "a chain that cannot be read", offers: blocks, want: []plan.EligibleEndpoint{
			{ID: "ep_0", Templates: []plan.EligibleTemplate{{ID: "unit.convert", Version: 1, Entries: []string{"units"}}}},
		}, notes: []plan.Note{on("ep_0", "no_chain", "block-explorer", "units")}},
		{name: "a chain that can be read", offers: blocks, means: plan.Means{ReadsChains: true}, want: []plan.EligibleEndpoint{
			{ID: "ep_0", Templates: []plan.EligibleTemplate{
				{ID: "chain.balance", Version: 1, Entries: []string{"block-explorer"}},
				{ID: "chain.block_hash", Version: 1, Entries: []string{"block-explorer", "units"}},
				{ID: "unit.convert", Version: 1, Entries: []string{"units"}},
			}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, notes := plan.EligibleOf(tt.offers, tt.skills, tt.means)
			if diff := cmp.Diff(plan.Eligible{Endpoints: append([]plan.EligibleEndpoint{}, tt.want...)}, got); diff != "" {
				t.Errorf("EligibleOf (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(append([]plan.Note{}, tt.notes...), notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if got.Empty() != (len(tt.want) == 0) {
				t.Errorf("Empty() = %t with %d endpoints", got.Empty(), len(tt.want))
			}
		})
	}
}

// The list is committed to by hash: the order of what was read is not in it, and
// nothing in it is null.
func TestEligibleOfBytes(t *testing.T) {
	t.Parallel()
	list, _ := plan.EligibleOf(offers(), nil, plan.Means{})
	want, err := list.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		o := offers()
		if i%2 == 1 {
			slices.Reverse(o)
			slices.Reverse(o[0].Surface.Skills)
			slices.Reverse(o[1].Surface.Tools)
		}
		list, _ := plan.EligibleOf(o, nil, plan.Means{})
		if got, err := list.Bytes(); err != nil || string(got) != string(want) {
			t.Fatalf("list = %s, %v, want %s", got, err, want)
		}
	}
	empty, _ := plan.EligibleOf(nil, nil, plan.Means{})
	if got, err := empty.Bytes(); err != nil || string(got) != `{"endpoints":[]}` {
		t.Errorf("empty list = %s, %v, want {\"endpoints\":[]}", got, err)
	}
}

// Nobody steers a choice, so each is made as often as the next: endpoint first,
// then template, then entry.
func TestChoose(t *testing.T) {
	t.Parallel()
	const draws = 6000
	list, _ := plan.EligibleOf(offers(), nil, plan.Means{})
	got := make(map[plan.Choice]int)
	for i := range uint32(draws) {
		seed := seedOf(i)
		c := list.Choose(seed)
		if again := list.Choose(seed); again != c {
			t.Fatalf("Choose(%s) = %v, then %v", seed, c, again)
		}
		got[c]++
	}
	want := map[plan.Choice]int{
		{"ep_0", "arith.percent_change", 1, "percent"}: draws / 6,
		{"ep_0", "arith.percent_of", 1, "percent"}:     draws / 6,
		{"ep_0", "unit.convert", 1, "convert-units"}:   draws / 12,
		{"ep_0", "unit.convert", 1, "unit-convert"}:    draws / 12,
		{"ep_1", "date.add_days", 1, "add_days"}:       draws / 4,
		{"ep_1", "hash.sha256", 1, "sha256"}:           draws / 4,
	}
	for c, n := range got {
		// Over five standard deviations of the rarest.
		if want[c] == 0 || n < want[c]-120 || n > want[c]+120 {
			t.Errorf("%v is chosen %d times in %d, want about %d", c, n, draws, want[c])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d choices are ever made, want %d", len(got), len(want))
	}
}

func TestCompute(t *testing.T) {
	t.Parallel()
	const day, limit = 20881, 12
	list, _ := plan.EligibleOf(offers(), nil, plan.Means{})
	tasks := 0
	for n := range uint32(16) {
		secret := seedOf(n)
		d, err := plan.Compute(consentID, day, secret, limit, list, plan.EntriesOf(offers(), nil))
		if err != nil {
			t.Fatal(err)
		}
		if d.Consent != consentID || d.Day != day || d.Secret != secret || d.Cap != limit || d.Count != plan.Count(secret, limit) {
			t.Errorf("day = %s %d, cap %d, count %d, want the arguments and %d tasks", d.Consent, d.Day, d.Cap, d.Count, plan.Count(secret, limit))
		}
		if got := check(t, d, list); got != d.Count {
			t.Errorf("%d real slots, want %d", got, d.Count)
		}
		tasks += d.Count
		again, err := plan.Compute(consentID, day, secret, limit, list, plan.EntriesOf(offers(), nil))
		if diff := cmp.Diff(d, again); err != nil || diff != "" {
			t.Errorf("the same day comes out otherwise (%v):\n%s", err, diff)
		}
	}
	if tasks == 0 {
		t.Error("no day has a task")
	}
}

// check derives each slot of d from its parts and returns the number of real ones.
func check(t *testing.T, d plan.Day, list plan.Eligible) (n int) {
	t.Helper()
	if len(d.Slots) != 24 {
		t.Errorf("%d slots, want 24", len(d.Slots))
	}
	set := plan.RealSlots(d.Secret, d.Count)
	seen := make(map[domain.Hash]bool)
	for i, s := range d.Slots {
		slot := uint32(i)
		seed := plan.Seed(d.Secret, d.Consent, d.Day, slot)
		if s.Index != i || s.Seed != seed || s.SendAt != plan.SendAt(seed, d.Day) || s.Identity != plan.Identity(seed) || s.Real != set[i] {
			t.Errorf("slot %d = %+v is not derived from its seed", i, s)
		}
		if got := d.Commits()[i]; got != s.Commit || seen[got] {
			t.Errorf("commit %d = %s, want that of the slot and of no other", i, got)
		}
		seen[s.Commit] = true
		if !s.Real {
			if want := plan.Pad(d.Consent, d.Day, slot, seed); s.Commit != want || s.Choice != (plan.Choice{}) || s.Task.Template != "" {
				t.Errorf("pad %d = %s with task %q, want %s and none", i, s.Commit, s.Task.Template, want)
			}
			continue
		}
		n++
		if want := list.Choose(seed); s.Choice != want {
			t.Errorf("slot %d chooses %v, want %v", i, s.Choice, want)
		}
		made, _, err := plan.EntriesOf(offers(), nil).Make(s.Choice, seed)
		if diff := cmp.Diff(made, s.Task); err != nil || diff != "" {
			t.Errorf("the task of slot %d (%v) (-Make +Compute):\n%s", i, err, diff)
		}
		// Its entry alone, as a reveal publishes it, makes the task as well.
		alone, err := task.Generate(s.Choice.Template, s.Choice.Version, seed, s.Entry)
		if diff := cmp.Diff(alone, s.Task); err != nil || diff != "" {
			t.Errorf("the task of slot %d (%v) (-Generate +Compute):\n%s", i, err, diff)
		}
		want := plan.Commit(plan.CommitFields{
			Consent: d.Consent, Day: d.Day, Slot: slot, Template: s.Choice.Template, TemplateVersion: s.Choice.Version,
			Endpoint: s.Choice.Endpoint, Identity: s.Identity, SendAt: s.SendAt, Seed: seed,
			AskHash: made.Ask.Hash(), ExpectedHash: made.Expected.Hash(),
		})
		if s.Commit != want {
			t.Errorf("commit of slot %d = %s, want %s", i, s.Commit, want)
		}
	}
	return n
}

func TestComputeEmptyList(t *testing.T) {
	t.Parallel()
	for n := range uint32(8) {
		d, err := plan.Compute(consentID, 20881, seedOf(n), plan.Slots, plan.Eligible{}, plan.EntriesOf(offers(), nil))
		if err != nil || d.Cap != 0 || d.Count != 0 {
			t.Fatalf("day without choices: cap %d, count %d, %v, want 0", d.Cap, d.Count, err)
		}
		if got := check(t, d, plan.Eligible{}); got != 0 {
			t.Errorf("%d real slots, want 24 pads", got)
		}
	}
}

func TestComputeNoLimitLeft(t *testing.T) {
	t.Parallel()
	list, _ := plan.EligibleOf(offers(), nil, plan.Means{})
	d, err := plan.Compute(consentID, 20881, seedOf(1), plan.Cap(12, 60, 60), list, plan.EntriesOf(offers(), nil))
	if err != nil || d.Cap != 0 || d.Count != 0 || check(t, d, list) != 0 {
		t.Errorf("day at its limit: cap %d, count %d, %v, want 24 pads", d.Cap, d.Count, err)
	}
}

// A list from elsewhere is checked against what the endpoints show.
func TestMakeForeignChoice(t *testing.T) {
	t.Parallel()
	good := plan.Choice{Endpoint: "ep_1", Template: "date.add_days", Version: 1, Entry: "add_days"}
	if _, _, err := plan.EntriesOf(offers(), nil).Make(good, seedOf(1)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*plan.Choice)
		skills []string
		err    error
	}{
		"endpoint": {func(c *plan.Choice) { c.Endpoint = "ep_0" }, nil, domain.ErrInvalid},
		"template": {func(c *plan.Choice) { c.Template = "hash.sha256" }, nil, domain.ErrInvalid},
		"entry":    {func(c *plan.Choice) { c.Entry = "sha256" }, nil, domain.ErrInvalid},
		"version":  {func(c *plan.Choice) { c.Version = 99 }, nil, domain.ErrNotFound},
		"scope":    {func(*plan.Choice) {}, []string{"sha256"}, domain.ErrInvalid},
	} {
		c := good
		tt.change(&c)
		if _, _, err := plan.EntriesOf(offers(), tt.skills).Make(c, seedOf(1)); !errors.Is(err, tt.err) {
			t.Errorf("Make with another %s: %v, want %v", name, err, tt.err)
		}
		list := plan.Eligible{Endpoints: []plan.EligibleEndpoint{{ID: c.Endpoint, Templates: []plan.EligibleTemplate{
			{ID: c.Template, Version: c.Version, Entries: []string{c.Entry}},
		}}}}
		secret := seedOf(1)
		if plan.Count(secret, plan.Slots) == 0 {
			t.Fatal("the day has no task to be made")
		}
		if _, err := plan.Compute(consentID, 20881, secret, plan.Slots, list, plan.EntriesOf(offers(), tt.skills)); !errors.Is(err, tt.err) {
			t.Errorf("Compute with another %s: %v, want %v", name, err, tt.err)
		}
	}
}

// The examples of three packages are one day, and a stranger can follow it from
// the signed message to the task.
func TestExamplesAreOneDay(t *testing.T) {
	t.Parallel()
	catalog := domain.NewCatalog(consent.Events, plan.Events, shop.Events)
	event := func(dir string, typ domain.Type) domain.Event {
		data, err := os.ReadFile(dir + "/" + string(typ) + ".json")
		if err != nil {
			t.Fatal(err)
		}
		e, err := catalog.Decode(typ, data)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	granted := event("../consent/testdata", "consent.granted.v1").(consent.Granted)
	sealed := event("testdata", "plan.sealed.v1").(plan.Sealed)
	opened := event("testdata", "plan.opened.v1").(plan.Opened)
	revealed := event("../shop/testdata", "shop.revealed.v1").(shop.Revealed)

	p := granted.Payload
	if err := plan.VerifyKey(opened.Key, opened.Day, p.FirstDay, p.ValidityDays, opened.Path, p.PlanKeyRoot); err != nil {
		t.Error(err)
	}
	list, err := opened.Eligible.Bytes()
	if err != nil || domain.Sum(list) != sealed.Eligible {
		t.Errorf("H(list) = %s, %v, want %s", domain.Sum(list), err, sealed.Eligible)
	}
	secret := plan.DaySecret(opened.Key, granted.Entropy())
	if got := plan.Count(secret, opened.Cap); got != opened.Count {
		t.Errorf("count = %d, want %d", got, opened.Count)
	}
	set := plan.RealSlots(secret, opened.Count)
	for i, c := range sealed.Commits {
		slot := uint32(i)
		seed := plan.Seed(secret, granted.Consent, sealed.Day, slot)
		if pad := plan.Pad(granted.Consent, sealed.Day, slot, seed); (pad == c) == set[i] {
			t.Errorf("slot %d: real is %t, and its commit %s", i, set[i], c)
		}
		if i != revealed.Slot {
			continue
		}
		choice := opened.Eligible.Choose(seed)
		if seed != revealed.Seed || choice.Endpoint != revealed.Endpoint || choice.Template != revealed.Template || choice.Entry != revealed.Entry.Name {
			t.Errorf("slot %d chooses %v with seed %s, want what was revealed", i, choice, seed)
		}
		want := plan.Commit(plan.CommitFields{
			Consent: revealed.Consent, Day: revealed.Day, Slot: slot,
			Template: revealed.Template, TemplateVersion: revealed.TemplateVersion, Endpoint: revealed.Endpoint,
			Identity: revealed.Identity, SendAt: revealed.SendAt, Seed: revealed.Seed,
			AskHash: revealed.Ask.Hash(), ExpectedHash: revealed.Expected.Hash(),
		})
		if c != want {
			t.Errorf("commit of slot %d = %s, want that of what was revealed, %s", i, c, want)
		}
	}
}
