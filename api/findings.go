package api

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/maintainer"
	"github.com/karatum/mystery/projections"
)

type findingBody struct {
	Mark
	ID          string                `json:"id" example:"fnd_mfzwizlsmjrxg43vmvzc_12"`
	At          time.Time             `json:"at"`
	Consent     string                `json:"consent"`
	ConsentURL  string                `json:"consentUrl" format:"uri"`
	Agent       agent.Ref             `json:"agent"`
	Cycle       string                `json:"cycle" enum:"day,end" doc:"What occasioned the comparison: a day was opened, or the consent is over."`
	Day         uint32                `json:"day" doc:"The day just opened."`
	Date        string                `json:"date" format:"date"`
	Look        int                   `json:"look" doc:"How often this consent was looked at, with this time."`
	Verdict     string                `json:"verdict" enum:"exam_only,consistent,insufficient" doc:"consistent: no such gap was found, which is no proof of equality."`
	Note        string                `json:"note" doc:"The same in plain words."`
	Exam        finding.Arm           `json:"exam"`
	Field       finding.Arm           `json:"field"`
	Sources     []finding.Source      `json:"examSources" doc:"What the exam is made of: trial attempts of the certification, and runs of the harness."`
	Families    []finding.Family      `json:"families" doc:"For reading; no test is made of them."`
	Test        string                `json:"test" doc:"z_pooled or fisher_exact; empty if there is not enough data."`
	P           string                `json:"p" doc:"One-sided."`
	Drop        finding.Interval      `json:"drop" doc:"Exam less field, with its 95 % interval (Newcombe)."`
	Gated       string                `json:"gatedVerdict" enum:"exam_only,watch,consistent,insufficient" doc:"The verdict behind a test that holds however often one looks; watch is a first sighting, not confirmed."`
	LogE        string                `json:"logE" doc:"Natural logarithm of the E-value of this look."`
	PAlways     string                `json:"pAlways" doc:"Valid at every look; it never rises."`
	Band        finding.Band          `json:"band" doc:"The verdicts with all blocked and missed tasks as passes, and as fails."`
	Conformity  finding.Interval      `json:"conformity" doc:"Field over exam, with its 95 % interval."`
	Stratified  finding.Stratified    `json:"stratified" doc:"The comparison within families (Cochran-Mantel-Haenszel)."`
	Detectable  string                `json:"detectableDrop" doc:"The smallest drop that this many tasks show 4 times in 5, as a fraction; empty if none."`
	Latency     finding.LatencyRatios `json:"latency" doc:"Field over exam."`
	AllConsents finding.AllConsents   `json:"allConsents" doc:"The agent in the field under every consent it ever had."`
	Rule        uint32                `json:"rule"`
	Thresholds  finding.Thresholds    `json:"thresholds"`

	Corrections []correctionBody `json:"corrections" doc:"What turned out to be wrong in it, oldest first. Show them where you show the verdict."`
	Reply       *ownerReply      `json:"reply,omitempty" doc:"What the owner says to it. It is the owner's word and not ours: text, never markup."`
}

type correctionBody struct {
	At   time.Time             `json:"at"`
	Text string                `json:"text"`
	By   []maintainer.Approval `json:"by" doc:"The maintainers who signed it."`
}

type ownerReply struct {
	At         time.Time         `json:"at"`
	Text       string            `json:"text,omitempty" doc:"Absent if it was erased."`
	Salt       string            `json:"salt,omitempty" doc:"In hex; opens the commitment. Absent if the text was erased."`
	Erased     *erasedBody       `json:"erased,omitempty" doc:"If the text was erased. What commits to it and all proofs stay as they were."`
	Commitment domain.Hash       `json:"commitment" doc:"SHA-256 over enc(karatum/mystery/finding-reply/v1, finding), the salt and the SHA-256 of the text."`
	Message    string            `json:"message" doc:"What the owner signed (EIP-191)."`
	Signature  consent.Signature `json:"signature"`
	Owner      eip191.Address    `json:"owner"`
	Verified   verification      `json:"verified"`
}

func correctionsOf(list []projections.Correction) []correctionBody {
	bodies := []correctionBody{}
	for _, c := range list {
		bodies = append(bodies, correctionBody(c))
	}
	return bodies
}

// replyOf returns the reply to a finding, nil if there is none.
func (s *server) replyOf(ctx context.Context, r *projections.FindingReply) (*ownerReply, error) {
	if r == nil {
		return nil, nil
	}
	b := &ownerReply{
		At: r.At, Commitment: r.Commitment, Message: r.Message(), Signature: r.Signature, Owner: r.Owner, Verified: verificationOf(r.Verified),
	}
	if !r.ErasedAt.IsZero() {
		b.Erased = &erasedBody{r.ErasedAt, r.Reason}
		return b, nil
	}
	salt, text, err := s.Bodies.Get(ctx, finding.ReplyKey(r.Commitment))
	if errors.Is(err, domain.ErrNotFound) {
		return b, nil // erased a moment ago
	}
	b.Text, b.Salt = string(text), hex.EncodeToString(salt)
	return b, err
}

type findingsInput struct {
	Agent   string `query:"agent" maxLength:"160" doc:"Only those on this agent." example:"build:42"`
	Verdict string `query:"verdict" enum:"exam_only,consistent,insufficient"`
	Cursor  string `query:"cursor" maxLength:"400" doc:"From nextCursor of the page before."`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type findingsOutput struct {
	Link string `header:"Link" doc:"The next page (RFC 8288)."`
	Body struct {
		Items []findingBody `json:"items" doc:"Latest first."`
		Next  string        `json:"nextCursor,omitempty" doc:"Absent on the last page."`
	}
}

type findingKey projections.FindingKey

func (k findingKey) valid() bool {
	return consentID.MatchString(k.Consent) && k.Look > 0 && k.Look < 1<<31
}

func (s *server) registerFindings(api huma.API) {
	huma.Register(api, get("list-findings", "/findings", "Every comparison of field and exam"), s.listFindings)

	type path struct {
		ID string `path:"id" pattern:"^fnd_[a-z2-7]{20}_[1-9][0-9]{0,8}$" example:"fnd_mfzwizlsmjrxg43vmvzc_12"`
	}
	type output struct{ Body findingBody }
	huma.Register(api, get("get-finding", "/findings/{id}", "One comparison, with the owner's reply and what was corrected", 404),
		func(ctx context.Context, in *path) (*output, error) {
			b, err := s.oneFinding(ctx, in.ID)
			return &output{b}, err
		})

	type challengeRequest struct {
		ID   string `path:"id" pattern:"^fnd_[a-z2-7]{20}_[1-9][0-9]{0,8}$" example:"fnd_mfzwizlsmjrxg43vmvzc_12"`
		Body struct {
			Text string `json:"text" minLength:"1" maxLength:"4096" doc:"The reply: plain text, 4 KiB of UTF-8 at most."`
		}
	}
	type challengeOutput struct{ Body replyChallenge }
	huma.Register(api, limited(post("challenge-reply", "/findings/{id}/reply-challenge", "Ask for a reply to sign", http.StatusOK, maxReply)),
		func(ctx context.Context, in *challengeRequest) (*challengeOutput, error) {
			if err := s.spend(ctx, s.Limits, commands.ReplyQuotas(callerOf(ctx).address)); err != nil {
				return nil, err
			}
			c, err := s.Service.ChallengeReply(ctx, in.ID, in.Body.Text)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			return &challengeOutput{replyChallenge(c)}, nil
		})

	type replyRequest struct {
		ID   string `path:"id" pattern:"^fnd_[a-z2-7]{20}_[1-9][0-9]{0,8}$" example:"fnd_mfzwizlsmjrxg43vmvzc_12"`
		Body struct {
			ChallengeID string      `json:"challengeId" maxLength:"200"`
			Text        string      `json:"text" minLength:"1" maxLength:"4096" doc:"Just as it was sent for the challenge."`
			Salt        domain.Hash `json:"salt" doc:"From the challenge."`
			Signature   string      `json:"signature" doc:"As for a consent."`
		}
	}
	huma.Register(api, post("reply-to-finding", "/findings/{id}/reply", "Reply to a finding", http.StatusCreated, maxReply+maxGrant, http.StatusForbidden),
		func(ctx context.Context, in *replyRequest) (*output, error) {
			sig, err := consent.ParseSignature(in.Body.Signature)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			r := commands.Reply{Finding: in.ID, ChallengeID: in.Body.ChallengeID, Text: in.Body.Text, Salt: in.Body.Salt, Signature: sig}
			if err := s.Service.FileReply(ctx, r); err != nil {
				return nil, s.fail(ctx, err)
			}
			s.caughtUp(ctx)
			b, err := s.oneFinding(ctx, in.ID)
			return &output{b}, err
		})

	type correctRequest struct {
		ID   string `path:"id" pattern:"^fnd_[a-z2-7]{20}_[1-9][0-9]{0,8}$" example:"fnd_mfzwizlsmjrxg43vmvzc_12"`
		Body struct {
			Version int                   `json:"version" minimum:"0" maximum:"1000000" doc:"How many corrections the finding has."`
			Text    string                `json:"text" maxLength:"2000"`
			By      []maintainer.Approval `json:"by" minItems:"1" maxItems:"1" doc:"Signature of a maintainer over enc(karatum/mystery/maintainer-action/v1, id, u64 version, correct, text)."`
		}
	}
	huma.Register(api, byMaintainer(post("correct-finding", "/findings/{id}/corrections", "Correct a finding, as a maintainer", http.StatusCreated, maxSmall, http.StatusForbidden)),
		func(ctx context.Context, in *correctRequest) (*output, error) {
			consentID, look, err := finding.ParseID(in.ID)
			if err != nil {
				return nil, s.fail(ctx, err)
			}
			c := finding.Correct{Consent: consentID, Look: look, Version: in.Body.Version, Text: in.Body.Text, By: in.Body.By}
			if err := s.Service.CorrectFinding(ctx, c); err != nil {
				return nil, s.fail(ctx, err)
			}
			s.caughtUp(ctx)
			b, err := s.oneFinding(ctx, in.ID)
			return &output{b}, err
		})
}

// maxReply is the size of a request that holds a reply, escaped at its worst.
const maxReply = 32 << 10

type replyChallenge struct {
	ChallengeID string      `json:"challengeId"`
	Message     string      `json:"message" doc:"To be signed as it is (EIP-191 personal_sign): LF, no newline at the end."`
	Salt        domain.Hash `json:"salt" doc:"Send it back with the text."`
	Commitment  domain.Hash `json:"commitment" doc:"Of text and salt; it stands in the message."`
	ExpiresAt   time.Time   `json:"expiresAt"`
}

func (s *server) oneFinding(ctx context.Context, id string) (findingBody, error) {
	consentID, look, err := finding.ParseID(id)
	if err != nil {
		return findingBody{}, s.fail(ctx, err)
	}
	f, err := s.Reader.Finding(ctx, consentID, look)
	if err != nil {
		return findingBody{}, s.fail(ctx, err)
	}
	b, err := s.findingOf(ctx, f)
	if err != nil {
		return b, s.fail(ctx, err)
	}
	return b, nil
}

func (s *server) listFindings(ctx context.Context, in *findingsInput) (*findingsOutput, error) {
	q := projections.FindingQuery{Verdict: finding.Verdict(in.Verdict), Limit: in.Limit + 1}
	var err error
	if in.Agent != "" {
		if q.Agent, err = agent.ParseRef(in.Agent); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
	after, err := decodeCursor[findingKey](in.Cursor)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	q.After = (*projections.FindingKey)(after)
	list, err := s.Reader.Findings(ctx, q)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	list, next, err := pageOf(list, in.Limit, func(f projections.Finding) any { return findingKey{f.At, f.Consent, f.Look} })
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &findingsOutput{Link: nextLink("/findings", next, in.Limit, map[string]string{"agent": in.Agent, "verdict": in.Verdict})}
	out.Body.Items, out.Body.Next = make([]findingBody, len(list)), next
	for i, f := range list {
		if out.Body.Items[i], err = s.findingOf(ctx, f); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
	return out, nil
}

func (s *server) findingOf(ctx context.Context, f projections.Finding) (findingBody, error) {
	reply, err := s.replyOf(ctx, f.Reply)
	return findingBody{
		Mark: markOf(f.Demo), ID: finding.ID(f.Consent, f.Look), At: f.At, Consent: f.Consent, ConsentURL: s.consentURL(f.Consent), Agent: f.Agent,
		Cycle: string(f.Cycle), Day: f.Day, Date: domain.DayString(f.Day), Look: f.Look,
		Verdict: string(f.Verdict), Note: f.Note, Exam: f.Exam, Field: f.Field, Sources: f.Sources, Families: f.Families,
		Test: f.Test, P: f.P, Drop: f.Drop, Gated: string(f.GatedVerdict), LogE: f.LogE, PAlways: f.PAlways, Band: f.Band, Conformity: f.Conformity,
		Stratified: f.Stratified, Detectable: f.DetectableDrop, Latency: f.Latency, AllConsents: f.AllConsents, Rule: f.Rule, Thresholds: f.Thresholds,
		Corrections: correctionsOf(f.Corrections), Reply: reply,
	}, err
}
