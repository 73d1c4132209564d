package shield_test

import (
	"os"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/domaintest"
	"github.com/karatum/mystery/domain/producer"
	"github.com/karatum/mystery/domain/producer/producertest"
	"github.com/karatum/mystery/domain/shield"
)

var (
	runner = producertest.New("shield-runner")
	stream = shield.StreamOf("sc_1")
	yes    = true
	no     = false
)

func opened(changes ...func(*shield.CaseOpened)) shield.CaseOpened {
	e := shield.CaseOpened{
		Case: "sc_1", Agent: "build:42",
		Target: shield.Target{Kind: shield.Fork, ChainID: 84532, Block: 17, Fork: "fork_1", Image: domain.Hash{1}, Host: "copy-1.shield.internal:8443"},
		Suite:  shield.Tool{Name: "karatum-suite", Version: "1.2.0", Digest: domain.Hash{2}},
		Attack: shield.Attack{Class: "LLM01", Technique: "indirect prompt injection", Payload: domain.Hash{3}}, UserTask: "user_task_7",
		SeedCommit: domain.Hash{4}, Budget: shield.Budget{Steps: 30, Seconds: 600, USD: "0.25"},
		Signed: producer.Signed{Producer: runner.Name},
	}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func result(o shield.Outcome, succeeded *bool, changes ...func(*shield.Result)) shield.Result {
	r := shield.Result{
		Outcome: o, AttackSucceeded: succeeded, Damage: shield.Damage{USD: "0"}, Session: "ses_1",
		Evidence:  []shield.Evidence{{Kind: "transcript", SHA256: domain.Hash{5}, Bytes: 4096}},
		Evaluator: shield.Tool{Name: "judge", Version: "3", Digest: domain.Hash{6}}, StartedAt: "2026-10-16T10:00:00.000Z", EndedAt: "2026-10-16T10:09:00.000Z",
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

// outcome signs, for others name it by its digest.
func outcome(t *testing.T, attempt int64, r shield.Result) shield.OutcomeRecorded {
	t.Helper()
	return producertest.Sign(t, runner, stream, "outcome", shield.OutcomeRecorded{Case: "sc_1", Attempt: attempt, Result: r})
}

func digest(t *testing.T, e producer.Source) domain.Hash {
	t.Helper()
	h, err := producer.Digest(stream, e)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestDecide(t *testing.T) {
	t.Parallel()
	resisted := outcome(t, 0, result(shield.Resisted, &no))
	compromised := outcome(t, 1, result(shield.Compromised, &yes))
	failed := outcome(t, 0, result(shield.Failed, nil))
	amended := producertest.Sign(t, runner, stream, "amended", shield.OutcomeAmended{
		Case: "sc_1", Attempt: 0, Supersedes: digest(t, resisted), Result: result(shield.Invalid, nil), Reason: "the copy was not reset", By: "maintainer",
	})
	final := shield.CaseClosed{Case: "sc_1", Final: digest(t, resisted), Signed: opened().Signed}
	aborted := shield.CaseAborted{Case: "sc_1", Reason: "the fork was lost", Signed: opened().Signed}
	stranger := resisted
	stranger.Producer = "another"
	elsewhere := resisted
	elsewhere.Case = "sc_2"
	broken := func(r shield.Result) shield.Command {
		return shield.RecordOutcome{Case: "sc_1", Result: r, Signed: opened().Signed}
	}
	open := func(change func(*shield.CaseOpened)) shield.Command { return shield.Open{Case: opened(change)} }

	type events = []shield.Event
	domaintest.Decide(t, shield.Decider, []domaintest.Case[shield.Command, shield.Event]{
		{Name: "open", When: shield.Open{Case: opened()}, Then: events{opened()}},
		{Name: "open twice", Given: events{opened()}, When: shield.Open{Case: opened()}, Err: domain.ErrConflict},
		{Name: "open on a host of a consent", When: shield.Open{Case: opened(), OfConsent: true}, Err: domain.ErrForbidden},
		{Name: "open on production", When: open(func(e *shield.CaseOpened) { e.Target.Kind = "production" }), Err: domain.ErrInvalid},
		{Name: "open on no host", When: open(func(e *shield.CaseOpened) { e.Target.Host = "https://x" }), Err: domain.ErrInvalid},
		{Name: "open on no agent", When: open(func(e *shield.CaseOpened) { e.Agent = "42" }), Err: domain.ErrInvalid},
		{Name: "open for floating dollars", When: open(func(e *shield.CaseOpened) { e.Budget.USD = "2.5e-1" }), Err: domain.ErrInvalid},
		{Name: "open for nobody", When: open(func(e *shield.CaseOpened) { e.Signed = producer.Signed{} }), Err: domain.ErrInvalid},
		{Name: "record before opening", When: shield.RecordOutcome(resisted), Err: domain.ErrNotFound},
		{Name: "record", Given: events{opened()}, When: shield.RecordOutcome(resisted), Then: events{resisted}},
		{Name: "record the same attempt again", Given: events{opened(), resisted}, When: shield.RecordOutcome(resisted), Err: domain.ErrConflict},
		{Name: "record the next attempt", Given: events{opened(), resisted}, When: shield.RecordOutcome(compromised), Then: events{compromised}},
		{Name: "record with a gap", Given: events{opened()}, When: shield.RecordOutcome(compromised), Err: domain.ErrConflict},
		{Name: "record of a stranger", Given: events{opened()}, When: shield.RecordOutcome(stranger), Err: domain.ErrForbidden},
		{Name: "record of another case", Given: events{opened()}, When: shield.RecordOutcome(elsewhere), Err: domain.ErrInvalid},
		{Name: "compromised without success", Given: events{opened()}, When: broken(result(shield.Compromised, &no)), Err: domain.ErrInvalid},
		{Name: "compromised without saying so", Given: events{opened()}, When: broken(result(shield.Compromised, nil)), Err: domain.ErrInvalid},
		{Name: "compromised without evidence", Given: events{opened()}, When: broken(result(shield.Compromised, &yes, func(r *shield.Result) { r.Evidence = []shield.Evidence{} })), Err: domain.ErrInvalid},
		{Name: "compromised without a session", Given: events{opened()}, When: broken(result(shield.Compromised, &yes, func(r *shield.Result) { r.Session = "" })), Err: domain.ErrInvalid},
		{Name: "resisted with success", Given: events{opened()}, When: broken(result(shield.Resisted, &yes)), Err: domain.ErrInvalid},
		{Name: "an outcome of no name", Given: events{opened()}, When: broken(result("won", &yes)), Err: domain.ErrInvalid},
		{Name: "an attempt that ends before it starts", Given: events{opened()}, When: broken(result(shield.Failed, nil, func(r *shield.Result) { r.EndedAt = "2026-10-16T09:00:00Z" })), Err: domain.ErrInvalid},
		{Name: "a severity that is none", Given: events{opened()}, When: broken(result(shield.Failed, nil, func(r *shield.Result) { r.KAS = &shield.KAS{Profile: "KAS-1.0", Vector: "high", Score: "7.0"} })), Err: domain.ErrInvalid},
		{Name: "amend", Given: events{opened(), resisted}, When: shield.AmendOutcome(amended), Then: events{amended}},
		{Name: "amend what is amended already", Given: events{opened(), resisted, amended}, When: shield.AmendOutcome(amended), Err: domain.ErrConflict},
		{Name: "amend what does not exist", Given: events{opened()}, When: shield.AmendOutcome(amended), Err: domain.ErrConflict},
		{Name: "close", Given: events{opened(), resisted}, When: shield.Close(final), Then: events{final}},
		{Name: "close on what was amended", Given: events{opened(), resisted, amended}, When: shield.Close(final), Err: domain.ErrConflict},
		{Name: "close without an attempt", Given: events{opened()}, When: shield.Close(final), Err: domain.ErrConflict},
		{Name: "record after closing", Given: events{opened(), resisted, final}, When: shield.RecordOutcome(compromised), Err: domain.ErrConflict},
		{Name: "amend after closing", Given: events{opened(), resisted, final}, When: shield.AmendOutcome(amended), Err: domain.ErrConflict},
		{Name: "abort", Given: events{opened()}, When: shield.Abort(aborted), Then: events{aborted}},
		{Name: "abort while nothing counts", Given: events{opened(), failed}, When: shield.Abort(aborted), Then: events{aborted}},
		{Name: "abort what is decided", Given: events{opened(), resisted}, When: shield.Abort(aborted), Err: domain.ErrConflict},
		{Name: "abort what counts no more", Given: events{opened(), resisted, amended}, When: shield.Abort(aborted), Then: events{aborted}},
		{Name: "record after aborting", Given: events{opened(), aborted}, When: shield.RecordOutcome(resisted), Err: domain.ErrConflict},
	})
}

func TestWire(t *testing.T) {
	t.Parallel()
	domaintest.Wire(t, shield.Events, os.DirFS("testdata"))
}

func FuzzCatalogDecode(f *testing.F) {
	domaintest.FuzzDecode(f, shield.Events, os.DirFS("testdata"))
}
