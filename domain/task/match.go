package task

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// A Skill is a skill of an A2A agent card.
type Skill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}

// A Tool is one entry of MCP tools/list.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`

	// Destructive says that its annotations call it destructive and not read-only. Most
	// tools have none; to be silent is no hint.
	Destructive bool `json:"destructive,omitempty"`
}

// A Sale is how a paid resource takes money, apart from its price, which it says to
// each who asks.
type Sale struct {
	Network string `json:"network"` // CAIP-2
	Asset   string `json:"asset"`
	PayTo   string `json:"payTo"`
}

// A Surface is what any client sees of one endpoint.
type Surface struct {
	Kind   Kind    `json:"kind"`
	Skills []Skill `json:"skills,omitempty"`
	Tools  []Tool  `json:"tools,omitempty"`
	Sales  []Sale  `json:"sales,omitempty"` // those that could be paid
}

// A Role is the part that an argument plays in a question.
type Role string

// The roles of arguments.
const (
	roleValue     Role = "value"
	roleFrom      Role = "from"
	roleTo        Role = "to"
	rolePercent   Role = "percent"
	roleList      Role = "list"
	roleDate      Role = "date"
	roleDays      Role = "days"
	roleData      Role = "data"
	roleAlgorithm Role = "algorithm"
	roleDecimals  Role = "decimals"
	rolePeople    Role = "people"
	rolePrincipal Role = "principal"
	roleRate      Role = "rate" // in per cent a year
	roleYears     Role = "years"
	rolePeriods   Role = "periods" // a year
	roleStart     Role = "start"   // a date
	roleEnd       Role = "end"     // a date
	roleAmount    Role = "amount"  // more digits than a number of JSON keeps
	roleHex       Role = "hex"
	roleSignature Role = "signature"
	roleAddress   Role = "address"
)

// A parameter is a part of a question that a tool may take by itself.
type parameter struct {
	role     Role
	names    string // property names without case and signs, the likeliest first
	required bool   // the tool must have a property for it
}

// types are the JSON Schema types that can carry a role.
func (r Role) types() []string {
	switch r {
	case roleValue, rolePercent, roleDays, roleDecimals, rolePeople, rolePrincipal, roleRate, roleYears, rolePeriods:
		return []string{"", "number", "integer", "string"}
	case roleList:
		return []string{"", "array"}
	case roleFrom, roleTo: // units, or the values of a change
		return []string{"", "string", "number", "integer"}
	default:
		return []string{"", "string"}
	}
}

// suits reports whether a property of a fitting name takes what the role holds. A
// rate may be 5 or 0.05 to a tool, so one that does not say per cent is left alone.
func (r Role) suits(p property) bool {
	if r != roleRate {
		return true
	}
	said := strings.ToLower(p.name + " " + p.description)
	return strings.Contains(said, "percent") || strings.Contains(said, "%")
}

// keywords recognise the skills that can take a template. They are compared in the
// form that plain gives them, so case, hyphens and a plural s make no difference.
type keywords struct {
	own       []string // in an id, a name or a tag: this template
	broad     []string // in an id, a name or a tag: the whole family
	described []string // in a description, where the names say nothing
	rivals    []string // in an id, a name or a tag: another thing of the family, unless this template is named too
	veto      []string // in an id, a name or a tag: something else after all
}

// A fitness says how well a text names a template.
type fitness int

const (
	unnamed  fitness = iota // not at all
	family                  // it names the family
	specific                // it names the template itself
)

// Match returns, for each template that something on the surface can honestly
// take, the entries that can take it, sorted bytewise by name. allow is the owner's
// list of skill ids, skill names or tool names; an empty list allows all.
//
// A skill or tool is recognised by its id, name and tags; its description counts
// only if those name no template at all. A tool must also have a schema that
// takes the question, and neither its name, its description nor its annotations may
// hint that it changes anything. The question is taken in parts, where the tool is specific to the template and has a
// property for each part, or as a whole in its one free-text property. What a
// schema leaves open is taken as allowed; a schema that cannot be read takes
// nothing. Of a surface the first 128 skills or tools count, without those whose
// name has more than 128 bytes. A resource that is for sale is bought: it has one
// entry, [Resource], which no list of skills names and so none leaves out.
func Match(s Surface, allow []string) map[string][]Entry {
	m, _ := survey(s, allow)
	return m
}

// LeftOver returns the skills and tools of a surface that Match finds no template for,
// each with the first reason that applies, in the order in which they are shown.
func LeftOver(s Surface, allow []string) []Left {
	_, left := survey(s, allow)
	return left
}

// A Left is a skill or tool that nothing can be asked of.
type Left struct {
	Name string // as the agent spells it; may be empty
	Why  Unfit
}

// An Unfit says why nothing can be asked of a skill or tool.
type Unfit string

// Reasons, in the order in which they are looked for.
const (
	TooMany      Unfit = "too_many"      // it stands behind the first 128
	UnusableName Unfit = "unusable_name" // it has none, or one that is too long
	SkillLeftOut Unfit = "skill_left_out"
	ChangesState Unfit = "changes_state"
	UnfitSchema  Unfit = "unfit_schema"
	NoTask       Unfit = "no_task"
)

// survey looks at all that a surface shows.
func survey(s Surface, allow []string) (m map[string][]Entry, left []Left) {
	m = make(map[string][]Entry)
	seen := make(map[string]bool)
	leave := func(name string, why Unfit) { left = append(left, Left{name, why}) }
	// A name is taken by the first that has it.
	passes := func(i int, name string, allowed bool) bool {
		switch {
		case i >= maxOffers:
			leave(name, TooMany)
		case name == "" || len(name) > maxName:
			leave(name, UnusableName)
		case seen[name]:
		case !allowed:
			leave(name, SkillLeftOut)
		default:
			seen[name] = true
			return true
		}
		return false
	}
	switch s.Kind {
	case A2A:
		for i, skill := range s.Skills {
			name := cmp.Or(skill.ID, skill.Name)
			if !passes(i, name, allowed(allow, skill.ID, skill.Name)) {
				continue
			}
			found := skill.take()
			if len(found) == 0 {
				leave(name, NoTask)
			}
			for id, e := range found {
				m[id] = append(m[id], e)
			}
		}
	case MCP:
		for i, tool := range s.Tools {
			if !passes(i, tool.Name, allowed(allow, tool.Name)) {
				continue
			}
			found, why := tool.take()
			if len(found) == 0 {
				leave(tool.Name, why)
			}
			for id, e := range found {
				m[id] = append(m[id], e)
			}
		}
	case X402:
		if len(s.Sales) > 0 {
			m[paymentTemplate] = []Entry{{Kind: X402, Name: Resource}}
		}
	}
	used := make(map[string]bool)
	for _, entries := range m {
		slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
		for _, e := range entries {
			used[e.Name] = true
		}
	}
	return m, slices.DeleteFunc(left, func(l Left) bool { return used[l.Name] })
}

// take returns the entry by which a skill takes each template that it can take.
func (s Skill) take() map[string]Entry {
	label := s.Name
	if len(label) > maxName {
		label = ""
	}
	found := make(map[string]Entry)
	for _, c := range recognise(phrases(append([]string{s.ID, s.Name}, s.Tags...)...), s.Description) {
		found[c.template.ID] = Entry{Kind: A2A, Name: cmp.Or(s.ID, s.Name), Label: label}
	}
	return found
}

// take returns the entry by which a tool takes each template that it can take, or why
// there is none.
func (t Tool) take() (found map[string]Entry, why Unfit) {
	if t.Destructive || changesState(t) {
		return nil, ChangesState
	}
	known := recognise(phrases(t.Name), t.Description)
	if len(known) == 0 {
		return nil, NoTask
	}
	properties, ok := readSchema(t.InputSchema)
	if !ok {
		return nil, UnfitSchema
	}
	found = make(map[string]Entry)
	for _, c := range known {
		if e, ok := properties.take(c.template, c.fitness); ok {
			e.Kind, e.Name = MCP, t.Name
			found[c.template.ID] = e
		}
	}
	return found, UnfitSchema
}

func allowed(allow []string, names ...string) bool {
	return len(allow) == 0 || slices.ContainsFunc(names, func(n string) bool {
		return n != "" && slices.Contains(allow, n)
	})
}

// Resource is the name of the one entry of a paid resource.
const Resource = "resource"

// maxOffers bounds how many skills or tools of one surface are looked at.
const maxOffers = 128

// maxName bounds the names that a task can be for: they are published with every
// day, and the agent chooses them.
const maxName = 128

// stateVerbs are what tools do that are not there to be read only.
var stateVerbs = makeSet("send delete remove erase pay transfer withdraw write update insert upload publish deploy mint swap buy purchase " +
	"sell trade stake approve submit cancel modify overwrite broadcast")

// changesState reports whether a tool hints at side effects: by a verb in its name,
// or by one in its description that says what it does, at the start of a sentence
// or clause. What "each person pays" is no hint.
func changesState(t Tool) bool {
	for w := range strings.FieldsSeq(plain(t.Name)) {
		if stateVerbs[w] {
			return true
		}
	}
	starts := true
	for _, w := range words(nil, []byte(t.Description[:min(len(t.Description), maxNamed)])) {
		if starts && (stateVerbs[string(w)] || stateVerbs[string(bytes.TrimSuffix(w, []byte("s")))]) {
			return true
		}
		switch string(w) {
		case ".", ",", ":", ";", "!", "?", "\n", "(", ")", "and", "or", "then", "also", "can", "will", "may", "it", "tool":
			starts = true
		default:
			starts = false
		}
	}
	return false
}

type candidate struct {
	template Template
	fitness  fitness
}

// recognise returns the templates that the names stand for, or if they stand for
// none, those that the description speaks of.
func recognise(named, description string) []candidate {
	var found []candidate
	for _, t := range catalogue() {
		if f := t.fitness(named); f > unnamed {
			found = append(found, candidate{t, f})
		}
	}
	if found != nil {
		return slices.DeleteFunc(found, func(c candidate) bool { return mentions(named, c.template.veto) })
	}
	text := phrases(description)
	for _, t := range catalogue() {
		if mentions(text, t.described) && !mentions(named, t.veto) && !mentions(named, t.rivals) {
			found = append(found, candidate{t, family})
		}
	}
	return found
}

func (k keywords) fitness(named string) fitness {
	switch {
	case mentions(named, k.own):
		return specific
	case mentions(named, k.broad) && !mentions(named, k.rivals):
		return family
	}
	return unnamed
}

func mentions(text string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return strings.Contains(text, " "+plain(p)+" ") })
}

// maxNamed bounds how much of a name or description is looked at.
const maxNamed = 4096

// phrases joins the plain forms of texts, so that a phrase is found by a search
// for it between two blanks and never across two texts.
func phrases(texts ...string) string {
	var b strings.Builder
	for _, t := range texts {
		if len(t) > maxNamed {
			t = t[:maxNamed]
		}
		b.WriteString(" " + plain(t) + " |")
		if b.Len() > 4*maxNamed {
			break
		}
	}
	return b.String()
}

// plain writes a name as words: camelCase and snake_case taken apart, letters
// parted from digits, all in lower case, without the s of a plural.
func plain(s string) string {
	var words []string
	var word []rune
	flush := func() {
		if n := len(word); n > 3 && word[n-1] == 's' && word[n-2] != 's' {
			word = word[:n-1]
		}
		if len(word) > 0 {
			words = append(words, string(word))
		}
		word = word[:0]
	}
	runes := []rune(s)
	for i, c := range runes {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			flush()
			continue
		}
		if i > 0 {
			before := runes[i-1]
			next := c
			if i+1 < len(runes) {
				next = runes[i+1]
			}
			switch {
			case unicode.IsDigit(c) != unicode.IsDigit(before),
				unicode.IsUpper(c) && unicode.IsLower(before),
				unicode.IsUpper(c) && unicode.IsUpper(before) && unicode.IsLower(next):
				flush()
			}
		}
		word = append(word, unicode.ToLower(c))
	}
	flush()
	return strings.Join(words, " ")
}
