package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/task"
)

// A Note says what of a consent was not shopped on a day, and why. It is about an
// endpoint, about some of the skills or tools that an endpoint shows, or about the day
// and the tasks that were planned for it.
type Note struct {
	Endpoint string   `json:"endpoint,omitempty"` // ep_0, …; "" if the note is about the day
	Reason   Reason   `json:"reason"`
	Count    int      `json:"count,omitempty"` // of the skills, tools or tasks that it is about
	Names    []string `json:"names,omitempty"` // of the first of these skills or tools, made tame
	Cause    string   `json:"cause,omitempty"` // of Unread: the code with which the last reading failed, if it is known
}

// A Reason is why something was not shopped: one of [Reasons].
type Reason string

// Reasons that are about a whole endpoint.
const (
	KindLeftOut    Reason = "kind_left_out"
	Unread         Reason = "unread"
	NothingOffered Reason = "nothing_offered"
	NoPayer        Reason = "no_payer"
)

// NoChain is a reason that is about skills or tools; the others are those of package
// task.
const NoChain Reason = "no_chain"

// Reasons that are about a day; those about its tasks are the ones of package shop.
const (
	NoPlan       Reason = "no_plan"
	LimitReached Reason = "limit_reached"
)

// A Subject is what notes with a reason are about, in plain words.
type Subject string

// Subjects.
const (
	ofEndpoint Subject = "an endpoint"
	ofEntries  Subject = "skills or tools of an endpoint"
	ofDay      Subject = "the day"
	ofTasks    Subject = "tasks of the day"
)

// reasons is the closed list, in the order in which notes stand.
var reasons = []struct {
	word     Reason
	about    Subject
	sentence string
}{
	{KindLeftOut, ofEndpoint, "The owner left this kind of endpoint out of the consent."},
	{Unread, ofEndpoint, "Nothing that the endpoint showed could be read in time: before 20:00 UTC of the day before, or for the first day when the consent was given."},
	{NothingOffered, ofEndpoint, "The endpoint shows no skill and no tool, and sells nothing in a way that we pay."},
	{NoPayer, ofEndpoint, "It is for sale, and we have no account that could pay."},

	{Reason(task.TooMany), ofEntries, "They stand behind the first 128 skills or tools, and no more are looked at."},
	{Reason(task.UnusableName), ofEntries, "They have no name, or one of more than 128 bytes."},
	{Reason(task.SkillLeftOut), ofEntries, "The owner did not put them on the list of skills in the consent."},
	{Reason(task.ChangesState), ofEntries, "Name, description or annotations hint that calling them changes something."},
	{Reason(task.UnfitSchema), ofEntries, "Their declared input does not take any question that we have for them."},
	{Reason(task.NoTask), ofEntries, "There is no honest task for what they do."},
	{NoChain, ofEntries, "They would be asked about a chain that we cannot read ourselves; they may take other tasks."},

	{NoPlan, ofDay, "No plan was sealed before the day began, so nothing was sent. The tasks that it should have had count as missed."},
	{LimitReached, ofDay, "The tasks of the six days before leave none for this day within the limits."},

	{Reason(shop.OperatorLate), ofTasks, "We did not send them within 15 minutes of their moment, and later they are not sent."},
	{Reason(shop.Paused), ofTasks, "They fell under a pause."},
	{Reason(shop.ProofStale), ofTasks, "For two hours the host could not be asked whose it is."},
	{Reason(shop.Unattested), ofTasks, "The commitments of the day did not stand on the chain yet."},
	{Reason(shop.HostBusy), ofTasks, "Their host had tasks under other consents until it was too late, or asked to be left alone."},
	{Reason(shop.HostLost), ofTasks, "The host was not shown to be the owner's any more, or wants no tasks."},
	{Reason(shop.ConsentOver), ofTasks, "The consent was over before their moment came."},
}

// Reasons returns the closed list of why something is not shopped.
func Reasons() []Reason {
	list := make([]Reason, len(reasons))
	for i, r := range reasons {
		list[i] = r.word
	}
	return list
}

// Sentence says in plain words what r means; "" if it is not one of [Reasons].
func (r Reason) Sentence() string {
	if i := r.place(); i >= 0 {
		return reasons[i].sentence
	}
	return ""
}

// Subject says what notes with the reason are about; "" if it is not one of [Reasons].
func (r Reason) Subject() Subject {
	if i := r.place(); i >= 0 {
		return reasons[i].about
	}
	return ""
}

// place is where r stands in the list, -1 if it does not.
func (r Reason) place() int {
	for i := range reasons {
		if reasons[i].word == r {
			return i
		}
	}
	return -1
}

// Bounds on what a note repeats of an agent's own words.
const (
	maxNames = 12
	maxName  = 48 // bytes, as the agent spells it
)

// noteOn returns the note on some of the skills or tools of an endpoint. The agent made
// up their names, and they are public for ever: so each is one line of ASCII, of
// bounded length.
func noteOn(endpoint string, r Reason, names []string) Note {
	n := Note{Endpoint: endpoint, Reason: r, Count: len(names)}
	for _, name := range names[:min(len(names), maxNames)] {
		if len(name) > maxName {
			name = name[:maxName] + "…"
		}
		quoted := strconv.QuoteToASCII(name)
		n.Names = append(n.Names, quoted[1:len(quoted)-1])
	}
	return n
}

// NotesOnDay returns the notes about a day as a whole and about the tasks that were
// planned for it, of which results are the ends. limit is the cap that was left.
func NotesOnDay(planned bool, l Eligible, limit int, results []shop.Result) []Note {
	count := make(map[Reason]int)
	for _, r := range results {
		if r.State == shop.StateMissed || r.State == shop.StateCancelled {
			count[Reason(r.Rule)]++
		}
	}
	notes := []Note{}
	for _, r := range reasons {
		switch {
		case r.word == NoPlan && !planned, r.word == LimitReached && limit == 0 && !l.Empty():
			notes = append(notes, Note{Reason: r.word})
		case r.about == ofTasks && count[r.word] > 0:
			notes = append(notes, Note{Reason: r.word, Count: count[r.word]})
		}
	}
	return notes
}

// check returns nil if the note is in its one form, which says something about what its
// reason is about.
func (n Note) check() error {
	i := n.Reason.place()
	if i < 0 {
		return fmt.Errorf("%q is no reason for not shopping something: %w", n.Reason, domain.ErrInvalid)
	}
	about := reasons[i].about
	named := min(n.Count, maxNames)
	if about != ofEntries {
		named = 0
	}
	if counts := about == ofEntries || about == ofTasks; (n.Endpoint == "") != (about == ofDay || about == ofTasks) ||
		(n.Count > 0) != counts || n.Count < 0 || len(n.Names) != named || slices.ContainsFunc(n.Names, wild) ||
		n.Cause != "" && (n.Reason != Unread || !isCode(n.Cause)) {
		return fmt.Errorf("the note %q does not say what it is about as it should: %w", n.Reason, domain.ErrInvalid)
	}
	return nil
}

// isCode reports whether s is a code such as no_card, timeout or -32601.
func isCode(s string) bool {
	return len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' })
}

// wild reports whether a name is not one that noteOn makes.
func wild(name string) bool {
	spelt, err := strconv.Unquote(`"` + name + `"`)
	return err != nil || len(spelt) > maxName+len("…") || strconv.QuoteToASCII(spelt) != `"`+name+`"`
}

// checkNotes returns nil if a day can have these notes.
func checkNotes(notes []Note) error {
	for i, n := range notes {
		if err := n.check(); err != nil {
			return err
		}
		if i > 0 && compareNotes(notes[i-1], n) >= 0 {
			return fmt.Errorf("the note %q stands in the wrong place: %w", n.Reason, domain.ErrInvalid)
		}
	}
	return nil
}

// compareNotes orders notes: one endpoint after the other, then the day.
func compareNotes(a, b Note) int {
	switch {
	case a.Endpoint == b.Endpoint:
		return cmp.Compare(a.Reason.place(), b.Reason.place())
	case a.Endpoint == "":
		return 1
	case b.Endpoint == "":
		return -1
	}
	return cmp.Compare(a.Endpoint, b.Endpoint)
}
