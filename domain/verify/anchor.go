package verify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/batch"
	"github.com/karatum/mystery/domain/ledger"
	"github.com/karatum/mystery/domain/merkle"
	"github.com/karatum/mystery/domain/seal"
)

// This file holds the checks that lead to a chain: what was committed to stands in a
// batch, and the batch was attested before it mattered. They are the same for a task
// and a pad until the slot is revealed.

// An Ask asks a node of its chain for the attestation of a batch, as it is on record. It
// answers pass or fail; any other status means that nobody could tell.
type Ask func(batch.Sealed, batch.Attested) (Status, string)

// A Rolled is a commit with its place in a batch. It is that of a slot, or the root of a
// seal.
type Rolled struct {
	Batch  uint64        `json:"batch"`
	Commit domain.Hash   `json:"commit"`
	Index  uint64        `json:"index"`
	Path   []domain.Hash `json:"path"` // to the root of the batch
}

// A batchRecords is what the public log has of a batch.
type batchRecords struct {
	state    batch.State
	before   *batch.State // that of the batch before; nil for the first, and if it is not there
	sealedAt time.Time
	attested []batch.Attested // all there ever were
	records  uint64
	sealing  string // what is wrong with how it was sealed
	fault    string // and with what came of it

	asked  bool
	status Status // what the chain says
	detail string
}

// roll takes in a step of a batch. What no ledger can hold is for the checks to say,
// as long as it can be told what the batch holds.
func (x *Excerpt) roll(e batch.Event, r *ledger.Record) (ledger.Stream, error) {
	n := batch.NumberOf(e)
	if n == 0 {
		return "", bad("there is no batch 0")
	}
	of := x.batches[n]
	if of == nil {
		of = &batchRecords{}
		x.batches[n] = of
	}
	of.records++
	_, first := e.(batch.Sealed)
	switch {
	case r.Version != of.records:
		return "", bad("the records before it in %s are missing", r.Stream)
	case first != (r.Version == 1):
		return "", bad("a batch is sealed once, by its first record")
	case first:
		of.sealedAt = r.Time
	}
	before := x.batches[n-1]
	if before != nil {
		of.before = &before.state
	}
	if before != nil || n == 1 {
		if err := batch.Check(of.state, of.before, []batch.Event{e}); err != nil {
			fault := &of.fault
			if first {
				fault = &of.sealing
			}
			if *fault == "" {
				*fault = domain.Sentence(err)
			}
		}
	}
	if a, ok := e.(batch.Attested); ok {
		of.attested = append(of.attested, a)
	}
	of.state = batch.Decider.Evolve(of.state, e)
	return batch.StreamOf(n), nil
}

// addCommit takes in the place of a commit that a record of the excerpt makes.
func (x *Excerpt) addCommit(c *Rolled) error {
	of := x.batches[c.Batch]
	switch {
	case of == nil:
		return bad("a commit is said to stand in batch %d, which is not there", c.Batch)
	case !x.commits[c.Commit]:
		return bad("no record makes the commit %s, which is said to stand in batch %d", c.Commit, c.Batch)
	case x.rolled[c.Commit] != nil:
		return bad("the commit %s is said to stand in two places", c.Commit)
	}
	s := of.state.Sealed
	if err := merkle.VerifyBatchPath(s.ID(), c.Commit, c.Index, uint64(s.Count), c.Path, s.Root); err != nil {
		return fmt.Errorf("batch %d: %w", c.Batch, err)
	}
	x.rolled[c.Commit] = c
	return nil
}

// An anchor is what a batch is to hold.
type anchor struct {
	of   domain.Hash
	name string    // for people
	key  string    // for inputs; "" if those of the batch say enough
	by   time.Time // when it had to be attested; zero if it had not
	act  string    // what was done then
}

// anchors are those of a slot.
func (s *slot) anchors() []anchor {
	list := []anchor{{of: s.shown.Commit, name: "the commit", key: "commit"}}
	if s.event == nil {
		return list
	}
	if s.sent != nil {
		list[0].by, list[0].act = s.sentAt, "the task was sent"
	}
	var e seal.Sealed
	if s.event.Pinned.Path == nil || s.seal == nil || domain.Unmarshal(s.seal.Record.Data, &e) != nil {
		return list
	}
	a := anchor{of: e.Root, name: "the seal", key: "seal"}
	switch {
	case s.event.Unanchored:
		a.name = "the seal, which the reveal did not wait for,"
	case len(s.stream) > 1:
		a.by, a.act = s.stream[1].Record.Time, "the slot was revealed"
	}
	return append(list, a)
}

// checkAnchors looks for all of list in batches, and for their attestations.
func (s *slot) checkAnchors(list []anchor) {
	if s.excerpt == nil {
		s.all(Pending, unsigned, "batch", "attestation")
		return
	}
	x := s.excerpt
	in, made := inputs{}, inputs{}
	var batches, attestations findings
	for _, a := range list {
		if a.key != "" {
			in[a.key] = a.of.String()
		}
		c := x.rolled[a.of]
		if c == nil {
			batches = batches.with(Pending, "pending until the signed log covers a batch with "+a.name)
			attestations = attestations.with(Pending, "pending until the signed log covers a batch with "+a.name)
			continue
		}
		of := x.batches[c.Batch]
		b := of.state.Sealed
		key := "batch" + strconv.FormatUint(c.Batch, 10)
		if a.key != "" {
			key = a.key
			in[key+"Batch"], in[key+"Index"] = strconv.FormatUint(c.Batch, 10), strconv.FormatUint(c.Index, 10)
		}
		in[key+"Count"], in[key+"Root"] = strconv.FormatUint(uint64(b.Count), 10), b.Root.String()
		if of.sealing != "" {
			batches = batches.with(Fail, fmt.Sprintf("%s is in batch %d, and %s", a.name, c.Batch, of.sealing))
		} else {
			batches = batches.with(Pass, fmt.Sprintf("%s is in batch %d", a.name, c.Batch))
		}
		if t := of.state.Attested; t != nil {
			made[key+"UID"], made[key+"Attester"], made[key+"AttestedAt"] = t.UID.String(), t.Attester.String(), t.Time.UTC().Format(time.RFC3339)
			made[key+"Schema"], made[key+"Chain"] = b.Schema.String(), strconv.FormatUint(b.Chain, 10)
		}
		attestations = attestations.with(x.attestation(of, a))
	}
	s.say("batch", batches.status(), in, "%s", batches)
	hint := ""
	if x.Ask == nil && attestations.status() == Pass {
		hint = "; karatum-verify --rpc asks the chain itself"
	}
	s.say("attestation", attestations.status(), made, "%s%s", attestations, hint)
}

// Clocks of a chain and of the service agree but for this: makers of blocks may write a
// time that is ahead.
const blockAhead = 15 * time.Second

// attestation says whether a batch was attested in time for what it holds.
func (x *Excerpt) attestation(of *batchRecords, a anchor) (Status, string) {
	n, t := of.state.Sealed.Batch, of.state.Attested
	switch {
	case of.fault != "":
		return Fail, fmt.Sprintf("of batch %d with %s: %s", n, a.name, of.fault)
	case t == nil:
		return Pending, fmt.Sprintf("pending until batch %d with %s is attested", n, a.name)
	case n > 1 && of.before == nil:
		return Pending, fmt.Sprintf("pending until the signed log covers batch %d, behind which batch %d with %s goes on", n-1, n, a.name)
	case t.RefUID != of.before.RefUID(of.state.Sealed):
		return Pending, fmt.Sprintf("pending until batch %d with %s is attested anew, as the batch before it was", n, a.name)
	}
	status, detail := x.chain(of)
	if status != Pass {
		return status, detail
	}
	late := func(t batch.Attested) bool { return !a.by.IsZero() && t.Time.After(a.by.Add(blockAhead)) }
	switch first := x.batches[1]; {
	case !late(*t):
		if a.act != "" {
			detail += ", before " + a.act
		}
		return Pass, fmt.Sprintf("%s: %s", a.name, detail)
	case first == nil:
		return Pending, "pending until the signed log covers batch 1"
	case a.by.Before(first.sealedAt):
		return Skipped, fmt.Sprintf("%s: %s, for there were no batches yet when %s", a.name, detail, a.act)
	case slices.ContainsFunc(of.attested, func(t batch.Attested) bool { return !late(t) }):
		return Skipped, fmt.Sprintf("%s: %s, for the chain lost the attestation that it had when %s", a.name, detail, a.act)
	}
	return Fail, fmt.Sprintf("%s: %s, and not before %s", a.name, detail, a.act)
}

// chain says what the chain does of an attestation, if somebody asks it, and else what
// the log does.
func (x *Excerpt) chain(of *batchRecords) (Status, string) {
	t := of.state.Attested
	detail := fmt.Sprintf("batch %d was attested on chain %d in block %d at %s", t.Batch, of.state.Sealed.Chain, t.Block, t.Time.UTC().Format("2006-01-02 15:04:05 MST"))
	if x.Ask == nil {
		return Pass, "the log says that " + detail
	}
	if !of.asked {
		of.asked = true
		of.status, of.detail = x.Ask(*of.state.Sealed, *t)
	}
	switch of.status {
	case Pass:
		return Pass, "the chain says that " + detail
	case Fail:
		return Fail, fmt.Sprintf("batch %d: %s", t.Batch, of.detail)
	default:
		return Pending, "pending until the chain can be asked: " + of.detail
	}
}

// findings are what was found of the parts of a check.
type findings []finding

type finding struct {
	status Status
	detail string
}

func (f findings) with(status Status, detail string) findings {
	return append(f, finding{status, detail})
}

// status returns the worst of all.
func (f findings) status() Status {
	for _, status := range []Status{Fail, Pending, Skipped} {
		if slices.ContainsFunc(f, func(p finding) bool { return p.status == status }) {
			return status
		}
	}
	return Pass
}

// String tells of the worst.
func (f findings) String() string {
	var details []string
	for status, i := f.status(), 0; i < len(f); i++ {
		if f[i].status == status {
			details = append(details, f[i].detail)
		}
	}
	return strings.Join(slices.Compact(details), "; ")
}
