package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/identity"
	"github.com/karatum/mystery/domain/plan"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/domain/terms"
)

// A Status is what came of a check.
type Status string

// Statuses.
const (
	Pass    Status = "pass"
	Fail    Status = "fail"
	Skipped Status = "skipped" // it takes what was not there: another version, a chain
	Pending Status = "pending" // it takes what is not published yet
)

// A Check is one claim of a published object, and whether it holds.
type Check struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
}

// A ConsentReport is what came of checking a published consent.
type ConsentReport struct {
	Consent string  `json:"consent"`
	Checks  []Check `json:"checks"`

	// Wallets are the signatures that only a chain can speak for. Their checks are
	// skipped until [ConsentReport.Settle] says what the chain answered.
	Wallets []WalletClaim `json:"-"`
}

// A WalletClaim says that a contract wallet accepted a signature at a block.
type WalletClaim struct {
	Check     string // that rests on it
	Owner     eip191.Address
	Hash      domain.Hash // that was signed: of EIP-191
	Signature consent.Signature
	Method    consent.Method
	At        agent.Block
}

// Failed reports whether a check could be made and does not hold.
func (r *ConsentReport) Failed() bool {
	for _, c := range r.Checks {
		if c.Status == Fail {
			return true
		}
	}
	return false
}

// Settle replaces the outcome of the check that rests on a claim.
func (r *ConsentReport) Settle(c WalletClaim, s Status, detail string) {
	for i := range r.Checks {
		if r.Checks[i].ID == c.Check {
			r.Checks[i].Status, r.Checks[i].Detail = s, detail
		}
	}
}

// Consent checks a published consent, the body of GET /v1/mystery/consents/{id}: it
// trusts nothing in it that follows from something else. The checks are
//
//	payload        it keeps all rules of a consent, and is in its one form
//	message        the text is the one that the payload stands for
//	payload_hash   it is that of the canonical JSON of the payload
//	consent_id     it follows from the nonce of the payload
//	summary        agent, owner and days beside the payload are those in it
//	terms, identity_pool, catalogue
//	               the hashes are those of this program, if it has that version
//	signature      the owner signed the message
//	owner_nonce    it opens the commitment in the message, if there is one
//	revocation     the owner signed the revocation, if there is one
//
// What cannot be read is a [domain.ErrInvalid]. Claims that do not hold are no
// error but checks that fail.
func Consent(data []byte) (*ConsentReport, error) {
	p, err := parsePublished(data)
	if err != nil {
		return nil, err
	}
	return p.report()
}

// report makes all checks.
func (p published) report() (*ConsentReport, error) {
	r := &ConsentReport{Consent: p.id}
	p.checkPayload(r)
	p.checkVersions(r)
	message, err := p.payload.Message()
	if err != nil {
		return nil, fmt.Errorf("payload: %w: %w", err, domain.ErrInvalid)
	}
	p.checkSignature(r, "signature", message, p.signature, p.verified)
	p.checkNonce(r)
	p.checkRevocation(r)
	return r, nil
}

// A published is a consent as the API shows it.
type published struct {
	id, state, message string
	agent              agent.Ref
	owner              eip191.Address
	firstDay, lastDay  uint32
	raw                json.RawMessage // the payload as it stands there
	payload            consent.Payload
	payloadHash        domain.Hash
	signature          consent.Signature
	verified           consent.Verification
	ownerNonce         domain.Hash // zero if there is none
	revocation         *publishedRevocation
	over               time.Time // zero while it is in force
}

type publishedRevocation struct {
	message   string
	nonce     domain.Hash
	issuedAt  time.Time
	signature consent.Signature
	verified  consent.Verification
}

// parsePublished reads what the checks are about. The API shows more of a consent,
// which they say nothing of.
func parsePublished(data []byte) (p published, err error) {
	o := openObject(data)
	p.id, p.state, p.message = o.text("id"), o.text("state"), o.text("message")
	o.take("agent", "an agent", &p.agent)
	o.take("owner", "an address with its checksum", &p.owner)
	o.take("firstDay", "a day number", &p.firstDay)
	o.take("lastDay", "a day number", &p.lastDay)
	o.take("payload", "an object", &p.raw)
	p.payloadHash = o.hash("payloadHash")
	o.take("signature", "hex behind 0x", &p.signature)
	o.take("verified", "an object", &p.verified)
	if o.has("ownerNonce") {
		p.ownerNonce = o.hash("ownerNonce")
	}
	if o.has("revocation") {
		p.revocation = parseRevocation(o)
	}
	if o.has("overAt") {
		o.take("overAt", "a time", &p.over)
	}
	if o.err != nil {
		return p, o.err
	}
	if err := domain.Unmarshal(p.raw, &p.payload); err != nil {
		return p, fmt.Errorf("payload: %w: %w", err, domain.ErrInvalid)
	}
	return p, nil
}

func parseRevocation(o *object) *publishedRevocation {
	inner := o.object("revocation")
	r := &publishedRevocation{message: inner.text("message"), nonce: inner.hash("nonce")}
	inner.take("issuedAt", "a time", &r.issuedAt)
	inner.take("signature", "hex behind 0x", &r.signature)
	inner.take("verified", "an object", &r.verified)
	if o.err == nil {
		o.err = inner.err
	}
	return r
}

// check adds what came of a check.
func (r *ConsentReport) check(id string, holds bool, pass, fail string) {
	c := Check{id, Pass, pass}
	if !holds {
		c.Status, c.Detail = Fail, fail
	}
	r.Checks = append(r.Checks, c)
}

func (r *ConsentReport) skip(id, why string) {
	r.Checks = append(r.Checks, Check{id, Skipped, why})
}

func (p published) checkPayload(r *ConsentReport) {
	rules := p.payload.Check()
	detail := ""
	if rules != nil {
		detail = domain.Sentence(rules)
	} else if !p.canonical() {
		rules, detail = domain.ErrInvalid, "it is written in another form than the one that was hashed"
	}
	r.check("payload", rules == nil, "it keeps every rule of a consent", detail)

	message, err := p.payload.Message()
	r.check("message", err == nil && message == p.message, "it is the text that the payload stands for", "it is not the text that the payload stands for")
	hash, err := p.payload.Hash()
	r.check("payload_hash", err == nil && hash == p.payloadHash, hash.String(), fmt.Sprintf("the payload has the hash %s and not %s", hash, p.payloadHash))
	id := plan.ConsentID(p.payload.Nonce)
	r.check("consent_id", id == p.id, "it follows from the nonce", fmt.Sprintf("the nonce gives %s and not %s", id, p.id))
	same := p.agent == p.payload.Agent && p.owner == p.payload.Owner && p.firstDay == p.payload.FirstDay && p.lastDay == p.payload.LastDay
	r.check("summary", same, "agent, owner and days are those of the payload", "agent, owner or days are not those of the payload")
}

// canonical reports whether the payload, as it stands there, says in every member
// what was hashed.
func (p published) canonical() bool {
	shown, err := domain.Canonical(p.raw)
	if err != nil {
		return false
	}
	hashed, err := domain.Canonical(p.payload)
	return err == nil && bytes.Equal(shown, hashed)
}

// checkVersions holds what the owner accepted against what this program has of it.
func (p published) checkVersions(r *ConsentReport) {
	versions := func(id string, signed, ours uint32, hash, want domain.Hash) {
		if signed != ours {
			r.skip(id, fmt.Sprintf("version %d was signed, and this program has version %d", signed, ours))
			return
		}
		r.check(id, hash == want, fmt.Sprintf("version %d, hash %s", ours, want), fmt.Sprintf("version %d has the hash %s, and %s was signed", ours, want, hash))
	}
	current := terms.Current()
	versions("terms", p.payload.TermsVersion, current.Number, p.payload.TermsHash, current.Hash())
	versions("identity_pool", p.payload.PoolVersion, identity.Version(), p.payload.PoolHash, identity.Hash())
	if digest := task.Digest(); p.payload.CatalogueDigest != digest {
		r.skip("catalogue", fmt.Sprintf("%s was signed, and this program has %s", p.payload.CatalogueDigest, digest))
	} else {
		r.check("catalogue", true, digest.String(), "")
	}
}

// checkSignature checks a signature by the owner's key. One that a contract wallet
// is said to have accepted becomes a claim to put to its chain.
func (p published) checkSignature(r *ConsentReport, id, message string, sig consent.Signature, v consent.Verification) {
	canonical, err := consent.VerifyPlain(message, p.payload.Owner, sig)
	switch {
	case err == nil:
		r.check(id, bytes.Equal(canonical[:], sig) && v.Method == consent.ByKey, fmt.Sprintf("the key of %s signed it (EIP-191)", p.payload.Owner),
			"the owner's key signed it, but it is not shown in its canonical form or is said to be another's")
	case v.Method != consent.ByWallet && v.Method != consent.ByFactory:
		r.check(id, false, "", domain.Sentence(err))
	case v.At.Chain != p.payload.Chain:
		r.check(id, false, "", fmt.Sprintf("the wallet was asked on chain %d, and the message names chain %d", v.At.Chain, p.payload.Chain))
	case p.payload.OwnerNonceHash.IsZero():
		r.check(id, false, "", "a contract wallet signed, and the message has no commitment to a nonce of the owner's")
	default:
		r.skip(id, fmt.Sprintf("a contract wallet is said to have accepted it (%s) in block %d of chain %d; a node that has this block can be asked again",
			v.Method, v.At.Number, v.At.Chain))
		r.Wallets = append(r.Wallets, WalletClaim{id, p.payload.Owner, eip191.Hash(message), sig, v.Method, v.At})
	}
}

func (p published) checkNonce(r *ConsentReport) {
	committed, opened := !p.payload.OwnerNonceHash.IsZero(), !p.ownerNonce.IsZero()
	switch {
	case !committed:
		r.check("owner_nonce", !opened, "the message commits to none: the signature is the owner's part of the seeds", "there is one, and the message commits to none")
	case !opened && p.state == "refused":
		r.skip("owner_nonce", "the consent was refused, so no seed depends on it")
	default:
		r.check("owner_nonce", domain.Sum(p.ownerNonce[:]) == p.payload.OwnerNonceHash, "it opens the commitment in the message", "it does not open the commitment in the message")
	}
}

func (p published) checkRevocation(r *ConsentReport) {
	const id = "revocation"
	switch {
	case p.revocation == nil && p.state == "revoked":
		r.check(id, false, "", "the consent is said to be revoked, and no revocation is shown")
	case p.revocation == nil:
		r.check(id, true, "there is none", "")
	case p.state != "revoked":
		r.check(id, false, "", fmt.Sprintf("there is one, and the consent is said to be %s", p.state))
	default:
		message := p.payload.Revocation(p.revocation.nonce, p.revocation.issuedAt).Message()
		if message != p.revocation.message {
			r.check(id, false, "", "its text is not the one of this consent")
			return
		}
		p.checkSignature(r, id, message, p.revocation.signature, p.revocation.verified)
	}
}
