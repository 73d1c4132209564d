package finding

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/maintainer"
)

const (
	prefix        = "fnd_"
	consentPrefix = "cns_"
)

// ID returns the id of the finding of one look at a consent.
func ID(consentID string, look int) string {
	return prefix + strings.TrimPrefix(consentID, consentPrefix) + "_" + strconv.Itoa(look)
}

// ParseID returns the consent and the look of a finding's id.
func ParseID(id string) (consentID string, look int, err error) {
	rest, ok := strings.CutPrefix(id, prefix)
	of, number, also := strings.Cut(rest, "_")
	look, err = strconv.Atoi(number)
	if !ok || !also || err != nil || look < 1 || ID(consentPrefix+of, look) != id {
		return "", 0, fmt.Errorf("%q is not the id of a finding, which is fnd_, 20 characters, _ and a number: %w", id, domain.ErrInvalid)
	}
	return consentPrefix + of, look, nil
}

// MaxReply is how many bytes the reply of an owner may have.
const MaxReply = 4 << 10

// CheckReply returns nil for a text that may stand as a reply: valid UTF-8 with line
// feeds and tabs and no other control characters. The error matches
// [domain.ErrInvalid].
func CheckReply(text string) error {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("the reply is empty: %w", domain.ErrInvalid)
	case len(text) > MaxReply:
		return fmt.Errorf("a reply has at most %d bytes, and this one has %d: %w", MaxReply, len(text), domain.ErrInvalid)
	case !utf8.ValidString(text), strings.ContainsFunc(text, control):
		return fmt.Errorf("a reply is UTF-8 text without control characters other than line feeds and tabs: %w", domain.ErrInvalid)
	}
	return nil
}

// ReplyKey is the key of the text of a reply, which lies beside the log, by what the
// ledger holds of it.
func ReplyKey(commitment domain.Hash) string { return ReplyPrefix + commitment.String() }

// ReplyPrefix is what these keys begin with.
const ReplyPrefix = "finding-reply/"

// Commitment is what the ledger holds of the text of a reply:
//
//	H(enc("karatum/mystery/finding-reply/v1", finding) ‖ salt ‖ H(text))
func Commitment(id string, salt domain.Hash, text string) domain.Hash {
	hash := domain.Sum([]byte(text))
	return domain.Sum(domain.NewEnc("karatum/mystery/finding-reply/v1").Str(id).Hash(salt).Hash(hash))
}

// ReplyFiled means that the owner who gave the consent replied to a finding. The text
// and its salt lie beside the log.
type ReplyFiled struct {
	Consent    string         `json:"consent"`
	Look       int            `json:"look"`
	Agent      agent.Ref      `json:"agent"`
	Domain     string         `json:"domain"` // of the consent, as are owner and chain
	Owner      eip191.Address `json:"owner"`
	Chain      uint64         `json:"chain"`
	Commitment domain.Hash    `json:"commitment"`
	Size       int            `json:"size"` // of the text, in bytes
	Nonce      domain.Hash    `json:"nonce"`
	IssuedAt   time.Time      `json:"issuedAt"`

	Signature consent.Signature    `json:"signature"`
	Verified  consent.Verification `json:"verified"`
}

// ReplyErased means that the text of a reply and its salt, which lie beside the log, are
// gone for good, and why. The reply stays filed, with all that commits to it.
type ReplyErased struct {
	Consent string `json:"consent"`
	Look    int    `json:"look"`
	Reason  string `json:"reason"`
}

// Corrected sets a finding right. It is shown wherever the finding is.
type Corrected struct {
	Consent string                `json:"consent"`
	Look    int                   `json:"look"`
	Text    string                `json:"text"`
	By      []maintainer.Approval `json:"by"`
}

// EventType implements [domain.Event].
func (ReplyFiled) EventType() domain.Type { return "finding.reply_filed.v1" }

// EventType implements [domain.Event].
func (ReplyErased) EventType() domain.Type { return "finding.reply_erased.v1" }

// EventType implements [domain.Event].
func (Corrected) EventType() domain.Type { return "finding.corrected.v1" }

func (ReplyFiled) findingEvent()  {}
func (ReplyErased) findingEvent() {}
func (Corrected) findingEvent()   {}

// Message returns the plain text that the owner signs (EIP-191 personal_sign): ASCII,
// LF, without a newline at the end. The reply stands in it by its commitment.
func (e ReplyFiled) Message() string {
	return fmt.Sprintf("%s asks to file a reply to a finding of the Mystery Shopper. Signing costs no gas and authorises nothing on-chain.\n"+
		"\nFinding: %s\nAgent: %s\nOwner: %s\nReply: %d bytes, commitment %s\nNonce: %s\nIssued at: %s",
		e.Domain, ID(e.Consent, e.Look), e.Agent, e.Owner, e.Size, e.Commitment, e.Nonce, e.IssuedAt.UTC().Format(time.RFC3339))
}

// Subject is what the challenge of a reply speaks of.
func (e ReplyFiled) Subject() domain.Hash {
	return domain.Sum(domain.NewEnc("karatum/mystery/finding-reply-subject/v1").
		Str(ID(e.Consent, e.Look)).U32(uint32(e.Size)).Hash(e.Commitment)) //nolint:gosec // 4 KiB at most
}

func fileReply(s State, e ReplyFiled) ([]Event, error) {
	id := ID(e.Consent, e.Look)
	switch {
	case e.Look < 1 || e.Look > s.Looks:
		return nil, fmt.Errorf("there is no finding %s: %w", id, domain.ErrNotFound)
	case s.Replied[e.Look]:
		return nil, domain.WithCode(domain.AlreadyReplied, fmt.Errorf("finding %s has a reply already: %w", id, domain.ErrConflict))
	case e.Size < 1 || e.Size > MaxReply:
		return nil, fmt.Errorf("a reply has 1 to %d bytes, and not %d: %w", MaxReply, e.Size, domain.ErrInvalid)
	}
	var err error
	if e.Signature, e.Verified, err = consent.Settle(e.Message(), e.Owner, e.Chain, e.Signature, e.Verified); err != nil {
		return nil, err
	}
	return []Event{e}, nil
}

func eraseReply(s State, e ReplyErased) ([]Event, error) {
	if err := domain.CheckReason(e.Reason); err != nil {
		return nil, err
	}
	switch {
	case !s.Replied[e.Look]:
		return nil, fmt.Errorf("nobody replied to finding %s, so there is nothing to erase: %w", ID(e.Consent, e.Look), domain.ErrNotFound)
	case s.Erased[e.Look]:
		return nil, nil
	}
	return []Event{e}, nil
}

// Action returns what a maintainer signs for a correction.
func (c Correct) Action() maintainer.Action {
	return maintainer.Action{Subject: ID(c.Consent, c.Look), Version: uint64(c.Version), Do: "correct", Text: c.Text} //nolint:gosec // a count
}

// Check returns nil if the text says something and one maintainer signed it.
func (c Correct) Check() error {
	if err := domain.CheckReason(c.Text); err != nil {
		return err
	}
	return c.Action().Check(1, c.By)
}

func correct(s State, c Correct) ([]Event, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	switch id := ID(c.Consent, c.Look); {
	case c.Look < 1 || c.Look > s.Looks:
		return nil, fmt.Errorf("there is no finding %s: %w", id, domain.ErrNotFound)
	case c.Version != s.Corrected[c.Look]:
		return nil, fmt.Errorf("finding %s has %d corrections, and this one was signed on top of %d; look at it again: %w",
			id, s.Corrected[c.Look], c.Version, domain.ErrConflict)
	}
	return []Event{Corrected{c.Consent, c.Look, c.Text, c.By}}, nil
}
