// Package terms holds the ten terms that an owner accepts with a consent. They
// are numbered, versioned and hashed; the version and the hash stand in the
// message that the owner signs. A published version never changes: new wording
// is a new version, and a consent keeps the one it was given under.
package terms

import (
	"fmt"
	"slices"

	"github.com/karatum/mystery/domain"
)

// A Term is one numbered paragraph.
type Term struct {
	N     uint32 `json:"n"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// A Version is the terms as published together.
type Version struct {
	Number uint32
	Terms  []Term
}

// Hash returns H(JCS([{n, title, text}, ...])).
func (v Version) Hash() domain.Hash {
	data, err := domain.Canonical(v.Terms)
	if err != nil {
		panic(fmt.Sprintf("terms: version %d: %v", v.Number, err)) // plain strings always encode
	}
	return domain.Sum(data)
}

// Current returns the version that a new consent refers to. The caller may
// change what it gets.
func Current() Version { return Version{1, slices.Clone(v1)} }

var v1 = []Term{
	{1, "Purpose", "Now and then Karatum gives the agent a test task on its production endpoint without saying so, " +
		"to learn whether it works there as it did when it was certified. The access is used for nothing else."},
	{2, "Consent", "No task is sent without a consent signed by the wallet that owns the agent. The wallet may be a plain key or a " +
		"contract; a contract is asked on its own chain, at a block that the consent records. The signed message names every " +
		"limit, and message and signature are public. The owner can revoke at any time with another signature; from that moment " +
		"no task goes out. A consent ends by itself when it expires, when the agent changes hands or when its certificate is withdrawn."},
	{3, "Limits", "An agent gets at most 24 tasks a day and 100 a week, on at most 6 endpoints, even where a consent would allow " +
		"more, and never more than its consent allows. What one consent has used up is not given back by the next. A host gets at most " +
		"24 tasks a day over all consents. Each host has to show that it belongs to the owner, is asked again at least once a day, and " +
		"can put a stop to everything sent there, whoever holds the wallet."},
	{4, "What tasks are", "A task is an everyday request for a skill that the agent declares, with an answer that anyone can check. " +
		"A task never carries prompt injection, credentials or personal data, never asks for a change to anything outside the reply, " +
		"and never aims to turn the agent against its owner or a third party."},
	{5, "Money", "Where the consent allows payment, Karatum pays the price that the agent asks, on the network named in the consent and " +
		"within its limits per task and per month; without that permission it pays nothing. Karatum charges the owner nothing. What it costs " +
		"to run the agent, its models and its hosting for these tasks is borne by the owner."},
	{6, "Identities", "A task arrives under one of the 12 client identities whose pool is published with these terms and whose hash is " +
		"signed. It comes from a network address that is made public with the reveal of the task and not before, since an address known " +
		"in advance could be treated apart. No identity passes for an existing person, product or organisation, and none is the one by which " +
		"Karatum's crawler or exam harness can be known."},
	{7, "Commit and reveal", "Before a day begins Karatum commits to all that it may send on that day. A reply is fixed by its hash on arrival. " +
		"Each task is revealed when the delay chosen in the consent has passed, between 1 hour and 30 days, and straight away after a " +
		"revocation. From what is revealed anyone can recompute task, answer and grade."},
	{8, "Use of results", "Revealed tasks, replies and results are published and remain public after a revocation, except for personal " +
		"data that has to be erased. A significant gap between exam and field is noted on the certificate and opens an incident, " +
		"which starts private and is looked at by a person. The owner may answer, and the answer is shown beside the result."},
	{9, "Limits of the method", "The tasks are a sample and prove nothing by themselves. Where no difference was found, none was seen in that " +
		"sample, which does not say that there is none. Exam and field put different tasks. An agent may learn to tell the shopper from " +
		"its users. Karatum can make mistakes, and what must be taken on trust all the same is written down and published."},
	{10, "What certification means", "A certificate tells how the agent did in an exam at one time. Notes from the field stand beside it and are " +
		"never mixed into its score. It says so where no consent was given or one was revoked. Neither certificate nor note is a " +
		"warranty or a piece of advice."},
}
