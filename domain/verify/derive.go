// Package verify holds the checks by which a stranger convinces himself of what
// the ledger says. Each is a pure function over bytes that the ledger published:
// it trusts nothing that it can compute, and shares with the service only the
// packages that define the formats.
//
// Two kinds of error are kept apart. Input that cannot be read, or says what no
// ledger can say, is a [domain.ErrInvalid]. Input that can be read and does not
// hold is an [ErrFailed] as well: someone's claim is false.
package verify

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/seal"
	"github.com/karatum/mystery/domain/shop"
)

// ErrFailed is matched by the error of a check that could be made and whose
// answer is no.
var ErrFailed = errors.New("verification failed")

const (
	maxDays = 365       // of a consent
	lastDay = 2_932_896 // 9999-12-31, the last date of eight digits
	maxSafe = 1<<53 - 1 // the largest integer that every JSON reader keeps exact
)

// A Day is all that follows from a day's key and the owner's part. A field about
// the sample is zero, and not in the JSON, if the row does not say what it is of.
type Day struct {
	ConsentID    string        `json:"consent_id"`
	PlanKey      domain.Hash   `json:"plan_key"`
	PlanKeyRoot  domain.Hash   `json:"plan_key_root"`
	PlanKeyPath  []domain.Hash `json:"plan_key_path"`
	ShopID       string        `json:"shop_id,omitzero"`
	SealRoot     domain.Hash   `json:"seal_root,omitzero"`  // if the sample has a seal
	ReplyHash    domain.Hash   `json:"reply_hash,omitzero"` // if the sample has a reply
	DeferredHash domain.Hash   `json:"deferred_hash,omitzero"`
	DaySecret    domain.Hash   `json:"day_secret"`
	Count        int           `json:"count"`
	RealSlots    []uint32      `json:"real_slots"` // ascending

	// By slot. A slot has a pad and a send time whether it is real or not.
	Seeds      [plan.Slots]domain.Hash `json:"seeds"`
	Pads       [plan.Slots]domain.Hash `json:"pads"`
	SendAt     [plan.Slots]int64       `json:"send_at"`
	Identities [plan.Slots]uint32      `json:"identities"`

	SampleCommit domain.Hash `json:"sample_commit,omitzero"`
}

// Derive recomputes a day from a row, which is a JSON object. It always holds
//
//	nonce        of the consent's challenge
//	first_day, days, day
//	             UTC day numbers; the validity has 1 to 365 days, day among them
//	cap          the most tasks that the day may have, 0 to 24
//
// and the day's key in one of two ways:
//
//	operator_secret
//	plan_key, plan_key_path, plan_key_root
//	             as opened; the root is the one in the signed message
//
// and the owner's part in one of two ways:
//
//	signature    of the consent, in hex with or without 0x; any encoding that
//	             [eip191.ParseSignature] takes stands for the canonical one
//	owner_nonce  where the signed message commits to one
//
// It may hold a sample, one slot about which more is said:
//
//	slot, template, template_version, endpoint
//	ask_hash     SHA-256 of the canonical JSON (RFC 8785) of the slot's ask
//	expected_hash
//	             and of what it expects
//	seal         {hour_of_day, head_hash}, or absent: a seal of the day in which
//	             no other slot has a head and the day before has no plan
//	reply        {yyyymmdd, received_at_ms, status, latency_ms, salt, body}, or
//	             absent; yyyymmdd is the date of day
//
// The deferred hash of a sample is that of rule block_hash at depth 12 + slot.
//
// Hashes, keys and nonces are 64 lower-case hex digits. A member that is missing,
// unknown or out of range is a [domain.ErrInvalid]. A plan key whose path does not
// lead from index day − first_day in a tree of days leaves to plan_key_root is
// an [ErrFailed].
func Derive(row []byte) (Day, error) {
	g, err := parseGiven(row)
	if err != nil {
		return Day{}, err
	}
	d := Day{ConsentID: plan.ConsentID(g.nonce)}
	if err := d.setKey(&g); err != nil {
		return Day{}, err
	}
	d.DaySecret = plan.DaySecret(d.PlanKey, g.ownerEntropy)
	d.Count = plan.Count(d.DaySecret, g.limit)
	slots := plan.RealSlots(d.DaySecret, d.Count)
	d.RealSlots = slots.Ascending()
	for i := range uint32(plan.Slots) {
		seed := plan.Seed(d.DaySecret, d.ConsentID, g.day, i)
		d.Seeds[i] = seed
		d.Pads[i] = plan.Pad(d.ConsentID, g.day, i, seed)
		d.SendAt[i] = plan.SendAt(seed, g.day)
		d.Identities[i] = plan.Identity(seed)
	}
	if g.sample != nil {
		d.setSample(g.day, g.sample)
	}
	return d, nil
}

// setKey computes the plan key and its proof, or checks those that were given.
func (d *Day) setKey(g *given) error {
	if !g.opened {
		d.PlanKey = plan.Key(g.operatorSecret, g.nonce, g.day)
		d.PlanKeyRoot = plan.KeyRoot(g.operatorSecret, g.nonce, g.firstDay, g.days)
		d.PlanKeyPath = plan.KeyPath(g.operatorSecret, g.nonce, g.firstDay, g.days, g.day)
		return nil
	}
	d.PlanKey, d.PlanKeyRoot, d.PlanKeyPath = g.planKey, g.planKeyRoot, g.planKeyPath
	if err := plan.VerifyKey(g.planKey, g.day, g.firstDay, g.days, g.planKeyPath, g.planKeyRoot); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return nil
}

func (d *Day) setSample(day uint32, s *sample) {
	d.ShopID = plan.ShopID(d.ConsentID, day, s.slot)
	if s.seal != nil {
		today := seal.Day{Day: day, Secret: d.DaySecret}
		today.Heads[s.slot] = s.seal.headHash
		d.SealRoot = seal.Root(24*uint64(day)+s.seal.hourOfDay, nil, &today)
	}
	if r := s.reply; r != nil {
		d.ReplyHash = shop.ReplyHash(d.ShopID, r.receivedAtMs, r.status, r.latencyMs, r.salt, []byte(r.body))
	}
	d.DeferredHash = shop.DeferredHash("block_hash", 12+s.slot)
	d.SampleCommit = plan.Commit(plan.CommitFields{
		Consent:         d.ConsentID,
		Day:             day,
		Slot:            s.slot,
		Template:        s.template,
		TemplateVersion: s.templateVersion,
		Endpoint:        s.endpoint,
		Identity:        d.Identities[s.slot],
		SendAt:          d.SendAt[s.slot],
		Seed:            d.Seeds[s.slot],
		AskHash:         s.askHash,
		ExpectedHash:    s.expectedHash,
	})
}

// A given is a row that has been read: every value is in its range.
type given struct {
	nonce               domain.Hash
	firstDay, days, day uint32
	limit               int

	opened               bool // the plan key was given, and not the operator secret
	operatorSecret       domain.Hash
	planKey, planKeyRoot domain.Hash
	planKeyPath          []domain.Hash

	ownerEntropy []byte
	sample       *sample
}

type sample struct {
	slot            uint32
	template        string
	templateVersion uint32
	endpoint        string
	askHash         domain.Hash
	expectedHash    domain.Hash

	seal  *sampleSeal  // nil if the row has none
	reply *sampleReply // nil if the row has none
}

type sampleSeal struct {
	hourOfDay uint64
	headHash  domain.Hash
}

type sampleReply struct {
	receivedAtMs int64
	status       uint32
	latencyMs    uint32
	salt         domain.Hash
	body         string
}

func parseGiven(row []byte) (given, error) {
	o := openObject(row)
	g := given{
		nonce:    o.hash("nonce"),
		firstDay: uint32(o.number("first_day", lastDay)), //nolint:gosec // within the limit
		days:     uint32(o.number("days", maxDays)),      //nolint:gosec // within the limit
		day:      uint32(o.number("day", lastDay)),       //nolint:gosec // within the limit
		limit:    int(o.number("cap", plan.Slots)),       //nolint:gosec // within the limit
		opened:   !o.has("operator_secret"),
	}
	if o.err == nil && (g.day < g.firstDay || g.day-g.firstDay >= g.days) {
		o.fail("day %d is not among the %d days from %d", g.day, g.days, g.firstDay)
	}
	if g.opened {
		g.planKey, g.planKeyPath, g.planKeyRoot = o.hash("plan_key"), o.hashes("plan_key_path"), o.hash("plan_key_root")
	} else {
		g.operatorSecret = o.hash("operator_secret")
	}
	g.ownerEntropy = parseOwnerEntropy(o)
	if o.has("sample") {
		var err error
		if g.sample, err = parseSample(o.object("sample"), g.day); o.err == nil {
			o.err = err
		}
	}
	return g, o.close()
}

func parseOwnerEntropy(o *object) []byte {
	if o.has("owner_nonce") {
		h := o.hash("owner_nonce")
		return h[:]
	}
	sig, err := eip191.ParseSignature("0x" + strings.TrimPrefix(o.text("signature"), "0x"))
	if o.err == nil && err != nil {
		o.err = fmt.Errorf("signature: %w", err)
	}
	return sig[:]
}

func parseSample(o *object, day uint32) (*sample, error) {
	s := &sample{
		slot:            uint32(o.number("slot", plan.Slots-1)), //nolint:gosec // within the limit
		template:        o.text("template"),
		templateVersion: uint32(o.number("template_version", math.MaxUint32)), //nolint:gosec // within the limit
		endpoint:        o.text("endpoint"),
		askHash:         o.hash("ask_hash"),
		expectedHash:    o.hash("expected_hash"),
	}
	var err error
	if o.has("seal") {
		if s.seal, err = parseSeal(o.object("seal")); err != nil {
			return nil, err
		}
	}
	if o.has("reply") {
		if s.reply, err = parseReply(o.object("reply"), day); err != nil {
			return nil, err
		}
	}
	return s, o.close()
}

func parseSeal(o *object) (*sampleSeal, error) {
	s := &sampleSeal{
		hourOfDay: o.number("hour_of_day", 23),
		headHash:  o.hash("head_hash"),
	}
	return s, o.close()
}

func parseReply(o *object, day uint32) (*sampleReply, error) {
	if date := o.text("yyyymmdd"); o.err == nil && date != domain.DayStart(day).Format("20060102") {
		o.fail("%syyyymmdd is %q, which is not day %d", o.name, date, day)
	}
	r := &sampleReply{
		receivedAtMs: int64(o.number("received_at_ms", maxSafe)),     //nolint:gosec // within the limit
		status:       uint32(o.number("status", math.MaxUint32)),     //nolint:gosec // within the limit
		latencyMs:    uint32(o.number("latency_ms", math.MaxUint32)), //nolint:gosec // within the limit
		salt:         o.hash("salt"),
		body:         o.text("body"),
	}
	return r, o.close()
}
