package task

import (
	"encoding/json"
	"slices"
	"strings"
)

// A schema is what we read of a tool's input schema: its properties, not the rest
// of JSON Schema. Arguments come from the task; the schema decides only whether
// the tool can take one.
type schema struct {
	properties []property // sorted by name
}

// A property of a tool.
type property struct {
	name        string
	typ         string // "" if the schema leaves it open
	enum        []string
	required    bool
	closed      bool // takes certain values only: an enum, a pattern, a format
	unreadable  bool // a type that we do not understand
	description string
}

// rawProperty is the part of JSON Schema that is looked at. Fields stay raw where
// schemas in the wild put various things.
type rawProperty struct {
	Ref         string            `json:"$ref"`
	Type        json.RawMessage   `json:"type"`
	Enum        []json.RawMessage `json:"enum"`
	Const       json.RawMessage   `json:"const"`
	Pattern     json.RawMessage   `json:"pattern"`
	Format      json.RawMessage   `json:"format"`
	AnyOf       []json.RawMessage `json:"anyOf"`
	OneOf       []json.RawMessage `json:"oneOf"`
	AllOf       []json.RawMessage `json:"allOf"`
	Description json.RawMessage   `json:"description"`
}

// Bounds on schemas: what exceeds them takes no task.
const (
	maxSchema     = 256 << 10
	maxProperties = 64
	maxReferences = 4
)

// readSchema reads an input schema. It reports false if nothing can be told from it.
func readSchema(data json.RawMessage) (schema, bool) {
	var raw struct {
		Properties  map[string]json.RawMessage `json:"properties"`
		Required    []string                   `json:"required"`
		Defs        map[string]json.RawMessage `json:"$defs"`
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	if len(data) == 0 || len(data) > maxSchema || json.Unmarshal(data, &raw) != nil || len(raw.Properties) > maxProperties {
		return schema{}, false
	}
	definitions := make(map[string]json.RawMessage, len(raw.Defs)+len(raw.Definitions))
	for name, d := range raw.Definitions {
		definitions["#/definitions/"+name] = d
	}
	for name, d := range raw.Defs {
		definitions["#/$defs/"+name] = d
	}
	var s schema
	for name, data := range raw.Properties {
		p := readProperty(data, definitions, maxReferences)
		p.name = name
		p.required = slices.Contains(raw.Required, name)
		s.properties = append(s.properties, p)
	}
	for _, name := range raw.Required {
		if _, ok := raw.Properties[name]; !ok { // required, but nobody says what it is
			s.properties = append(s.properties, property{name: name, required: true, unreadable: true})
		}
	}
	slices.SortFunc(s.properties, func(a, b property) int { return strings.Compare(a.name, b.name) })
	return s, true
}

// readProperty reads one property and follows at most depth references and
// alternatives; of alternatives the first that is not null counts.
func readProperty(data json.RawMessage, definitions map[string]json.RawMessage, depth int) property {
	var always bool
	if json.Unmarshal(data, &always) == nil { // true takes anything, false nothing
		return property{unreadable: !always}
	}
	var raw rawProperty
	if depth == 0 || json.Unmarshal(data, &raw) != nil {
		return property{unreadable: true}
	}
	var p property
	_ = json.Unmarshal(raw.Description, &p.description) // a description that is no text says nothing
	if raw.Ref != "" {
		target, ok := definitions[raw.Ref]
		if !ok {
			p.unreadable = true
			return p
		}
		return p.merge(readProperty(target, definitions, depth-1))
	}
	if raw.Type == nil {
		for _, alternative := range slices.Concat(raw.AnyOf, raw.OneOf, raw.AllOf) {
			if q := readProperty(alternative, definitions, depth-1); q.typ != "null" && !q.unreadable {
				return p.merge(q)
			}
		}
		p.unreadable = len(raw.AnyOf)+len(raw.OneOf)+len(raw.AllOf) > 0
	}
	p.typ, p.unreadable = readType(raw.Type, p.unreadable)
	for _, e := range raw.Enum {
		var s string
		if json.Unmarshal(e, &s) == nil {
			p.enum = append(p.enum, s)
		}
	}
	var fixed string
	if json.Unmarshal(raw.Const, &fixed) == nil && fixed != "" {
		p.enum = append(p.enum, fixed)
	}
	p.closed = raw.Enum != nil || raw.Const != nil || raw.Pattern != nil || raw.Format != nil
	p.unreadable = p.unreadable || (raw.Enum != nil || raw.Const != nil) && len(p.enum) == 0
	return p
}

// merge keeps the description nearest to the property.
func (p property) merge(q property) property {
	if p.description != "" {
		q.description = p.description
	}
	return q
}

// readType reads a type, which may be a list such as ["string", "null"].
func readType(raw json.RawMessage, unreadable bool) (string, bool) {
	if raw == nil {
		return "", unreadable
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one, false
	}
	var several []string
	if json.Unmarshal(raw, &several) != nil {
		return "", true
	}
	several = slices.DeleteFunc(several, func(s string) bool { return s == "null" })
	if len(several) == 0 {
		return "", true
	}
	return several[0], false
}

// take returns how a tool with this schema takes a template: in parts if the tool
// is specific to it, else in words. Kind and name of the entry are left to the caller.
func (s schema) take(t Template, f fitness) (Entry, bool) {
	fields, ok := s.fields(t.parameters)
	named := slices.ContainsFunc(fields, func(f Field) bool { return f.Role == roleAlgorithm && len(f.Enum) > 0 })
	// A property such as "text" is the text to be hashed in a tool of that name, but
	// in a tool for many things it may as well be the question.
	if ok && (f == specific || named) && !s.asksInWords() {
		e := Entry{Fields: fields}
		return e, t.fits(e)
	}
	text, ok := s.freeText(t.verbatim())
	return Entry{Text: text}, ok
}

// verbatim reports whether the tools for the template take in their one text what
// is to be worked on, and a question only if they say so.
func (t Template) verbatim() bool {
	return slices.Contains([]string{"hash", "evm", "selector"}, t.Family)
}

// fits reports whether the template makes questions that the fields take. One
// fixed seed decides, so that the answer is the same for all.
func (t Template) fits(e Entry) bool {
	e.Kind, e.Name = MCP, t.ID
	for _, f := range e.Fields {
		if len(f.Enum) > 0 || f.Type == "integer" {
			_, err := t.generate(sampleSeed(0), e, trialDraws)
			return err == nil
		}
	}
	return true
}

// fields finds a property for each parameter. It reports false if a parameter has
// none or the tool requires something else.
func (s schema) fields(parameters []parameter) ([]Field, bool) {
	var fields []Field
	used := make(map[string]bool)
	for _, want := range parameters {
		p, ok := s.find(want, used)
		if !ok {
			if want.required {
				return nil, false
			}
			continue
		}
		if !want.required && !p.required {
			continue // what is optional on both sides is left to the tool
		}
		used[p.name] = true
		fields = append(fields, Field{Role: want.role, Property: p.name, Type: p.typ, Enum: p.enum})
	}
	for _, p := range s.properties {
		if p.required && !used[p.name] {
			return nil, false
		}
	}
	return fields, len(fields) > 0
}

func (s schema) find(want parameter, used map[string]bool) (property, bool) {
	for name := range strings.FieldsSeq(want.names) {
		for _, p := range s.properties {
			if !used[p.name] && !p.unreadable && squeeze(p.name) == name && slices.Contains(want.role.types(), p.typ) && want.role.suits(p) {
				return p, true
			}
		}
	}
	return property{}, false
}

// squeeze writes the name of a property without case and signs.
func squeeze(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			return c
		}
		return -1
	}, name)
}

// Names of text properties: those that mean a question in words, and those that
// mean anything but that.
var (
	questionNames = strings.Fields("prompt question query task request instruction instructions userinput usermessage problem")
	foreignNames  = strings.Fields("expression formula equation code script url uri path file filename id date hash address unit " +
		"currency language locale timezone email name key token user username session sessionid model from to")
	questionWords = []string{"question", "in words", "natural language", "prompt", "request", "what to"}
)

func (p property) asksInWords() bool {
	return slices.Contains(questionNames, squeeze(p.name)) ||
		slices.ContainsFunc(questionWords, func(w string) bool { return strings.Contains(strings.ToLower(p.description), w) })
}

func (p property) takesText() bool {
	return p.typ == "string" && !p.closed && !p.unreadable && !slices.Contains(foreignNames, squeeze(p.name))
}

// asksInWords reports whether a required property of the tool says that it takes
// a question in words.
func (s schema) asksInWords() bool {
	return slices.ContainsFunc(s.properties, func(p property) bool { return p.required && p.takesText() && p.asksInWords() })
}

// freeText returns the one property that takes a whole prompt. strict demands that
// it says so.
func (s schema) freeText(strict bool) (string, bool) {
	var texts, required []property
	for _, p := range s.properties {
		if p.required {
			required = append(required, p)
		}
		if p.takesText() {
			texts = append(texts, p)
		}
	}
	var p property
	switch {
	case len(required) > 1:
		return "", false
	case len(required) == 1:
		p = required[0]
	case len(texts) == 1:
		p = texts[0]
	default: // several optional texts: the one that says it takes a question
		texts = slices.DeleteFunc(texts, func(p property) bool { return !p.asksInWords() })
		if len(texts) != 1 {
			return "", false
		}
		p = texts[0]
	}
	return p.name, p.takesText() && (!strict || p.asksInWords())
}
