package incident

import (
	"fmt"
	"strconv"
	"strings"

	gocvss40 "github.com/pandatix/go-cvss/40"
)

// Profile is the version of the severity profile: a CVSS 4.0 vector for each class of
// incident. Of over_claim, what is certified is less than what the relying parties
// are told: reachable over the net by whoever holds an enrolled account and is used
// (AV:N/AC:L/AT:N/PR:L/UI:P); some answers are wrong against the certificate, nothing
// leaks and the agent is up (VC:N/VI:L/VA:N); whoever relies on the certificate acts
// on a false assurance, and refusals slow them (SC:N/SI:H/SA:L); it was reproduced in
// production (E:P).
const Profile = "KAS-1.0"

const (
	overClaim = "CVSS:4.0/AV:N/AC:L/AT:N/PR:L/UI:P/VC:N/VI:L/VA:N/SC:N/SI:H/SA:L/E:P"

	// raised is the environmental metric by which an operator takes the integrity
	// of answers for more than the profile does. The vector shows it.
	raised = "/MVI:H"
)

// A Severity is how grave an incident is. Vector and profile decide; score and
// rating follow from the vector.
type Severity struct {
	Profile string `json:"profile"`
	Vector  string `json:"vector"`
	Score   string `json:"score"` // with one decimal
	Rating  Rating `json:"rating"`
}

// A Rating is the band that a score lies in.
type Rating string

// Ratings.
const (
	Low      Rating = "low"
	Medium   Rating = "medium"
	High     Rating = "high"
	Critical Rating = "critical"
)

// Grave reports whether a certificate may be recalled for it.
func (r Rating) Grave() bool { return r == High || r == Critical }

// Assess returns the severity of an over-claim, as the profile has it or raised.
func Assess(raise bool) Severity {
	vector := overClaim
	if raise {
		vector += raised
	}
	parsed, err := gocvss40.ParseVector(vector)
	if err != nil {
		panic(fmt.Sprintf("incident: vector %s: %v", vector, err)) // it is ours
	}
	score := parsed.Score()
	rating, err := gocvss40.Rating(score)
	if err != nil {
		panic(fmt.Sprintf("incident: score of %s: %v", vector, err))
	}
	return Severity{Profile, vector, strconv.FormatFloat(score, 'f', 1, 64), Rating(strings.ToLower(rating))}
}
