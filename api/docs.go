package api

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/api/explorer"
)

// This file tells the document to people: it makes of it what the pages below /docs/api
// show, so that these cannot say anything else.

// groups are the tags of operations, in the order in which people look for them.
var groups = []explorer.OperationGroup{
	{Name: "read", Title: "Consents, tasks and findings"},
	{Name: "ledger", Title: "The public log"},
	{Name: "owner", Title: "What owners sign"},
	{Name: "producer", Title: "What producers send"},
	{Name: "maintainer", Title: "What maintainers decide"},
}

// referenceOf returns what the document says. It panics if an operation is of no group,
// as that is a bug in the program.
func referenceOf(doc *huma.OpenAPI) *explorer.Reference {
	ref := &explorer.Reference{Description: doc.Info.Description, Groups: slices.Clone(groups)}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		item := doc.Paths[path]
		for _, op := range []*huma.Operation{item.Get, item.Post} {
			if op == nil {
				continue
			}
			i := slices.IndexFunc(groups, func(g explorer.OperationGroup) bool { return g.Name == op.Tags[0] })
			if i < 0 {
				panic(fmt.Sprintf("api: the operation %s is of no group that has a title", op.OperationID))
			}
			ref.Groups[i].Operations = append(ref.Groups[i].Operations, operationOf(doc, op))
		}
	}
	return ref
}

func operationOf(doc *huma.OpenAPI, op *huma.Operation) explorer.Operation {
	o := explorer.Operation{ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description}
	for _, p := range op.Parameters {
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p = doc.Components.Parameters[name]
		}
		o.Parameters = append(o.Parameters, parameterOf(p.Name, p))
	}
	var schemas []*huma.Schema
	contents := func(of map[string]*huma.MediaType) (list []explorer.Content) {
		for _, media := range slices.Sorted(maps.Keys(of)) {
			s := of[media].Schema
			schemas = append(schemas, s)
			list = append(list, explorer.Content{Media: media, Type: typeOf(s), Text: s.Description})
		}
		return list
	}
	if op.RequestBody != nil {
		o.Bodies = contents(op.RequestBody.Content)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		reply := explorer.Reply{Status: status, Text: r.Description, Bodies: contents(r.Content)}
		for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
			h := r.Headers[name]
			if ref, ok := strings.CutPrefix(h.Ref, "#/components/headers/"); ok {
				h = doc.Components.Headers[ref]
			}
			reply.Headers = append(reply.Headers, parameterOf(name, h))
		}
		o.Answers = append(o.Answers, reply)
	}
	o.Objects = objectsOf(doc, schemas)
	return o
}

func parameterOf(name string, p *huma.Param) explorer.Field {
	f := explorer.Field{Name: name, In: p.In, Type: typeOf(p.Schema), Needed: p.Required, Text: cmp.Or(p.Description, p.Schema.Description)}
	if p.Example != nil {
		f.Example = fmt.Sprint(p.Example)
	} else {
		f.Example = exampleOf(p.Schema)
	}
	return f
}

func exampleOf(s *huma.Schema) string {
	if len(s.Examples) == 0 {
		return ""
	}
	return fmt.Sprint(s.Examples[0])
}

const schemaRef = "#/components/schemas/"

// objectsOf returns the objects that schemas name, and those that these name.
func objectsOf(doc *huma.OpenAPI, schemas []*huma.Schema) (list []explorer.Object) {
	known := make(map[string]bool)
	for len(schemas) > 0 {
		s := schemas[0]
		schemas = schemas[1:]
		if s == nil {
			continue
		}
		if name, ok := strings.CutPrefix(s.Ref, schemaRef); ok && !known[name] {
			known[name] = true
			of := doc.Components.Schemas.Map()[name]
			list = append(list, objectOf(name, of))
			schemas = append(schemas, of)
		}
		schemas = append(schemas, s.Items)
		if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
			schemas = append(schemas, more)
		}
		schemas = append(schemas, s.OneOf...)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			schemas = append(schemas, s.Properties[name])
		}
	}
	return list
}

func objectOf(name string, s *huma.Schema) explorer.Object {
	o := explorer.Object{Name: name, Text: s.Description}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		o.Fields = append(o.Fields, explorer.Field{
			Name: name, Type: typeOf(p), Needed: slices.Contains(s.Required, name), Text: p.Description, Example: exampleOf(p),
		})
	}
	return o
}

// typeOf says in words what a value is.
func typeOf(s *huma.Schema) explorer.Type {
	switch {
	case s.Ref != "":
		return explorer.Type{Object: strings.TrimPrefix(s.Ref, schemaRef)}
	case s.Items != nil:
		t := typeOf(s.Items)
		t.Words = strings.TrimSuffix("list of "+t.Words, " ")
		return t
	case len(s.OneOf) > 0:
		t := typeOf(s.OneOf[0])
		for _, other := range s.OneOf[1:] {
			o := typeOf(other)
			t.Words = strings.TrimSpace(t.Words + ", or " + strings.TrimSpace(o.Words+" "+cmp.Or(t.Object, o.Object)))
		}
		return t
	}
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		t := typeOf(more)
		t.Words = strings.TrimSuffix("object, by name, of "+t.Words, " ")
		return t
	}
	t := explorer.Type{Words: cmp.Or(s.Format, s.Type, "any JSON"), Limits: limitsOf(s)}
	if len(s.Enum) > 0 {
		var words []string
		for _, v := range s.Enum {
			words = append(words, fmt.Sprint(v))
		}
		t.Words = strings.Join(words, ", ")
	}
	return t
}

// limitsOf says what a value is bounded by.
func limitsOf(s *huma.Schema) string {
	var list []string
	number := func(word string, n *float64) {
		if n != nil {
			list = append(list, word+" "+strconv.FormatFloat(*n, 'f', -1, 64))
		}
	}
	number("from", s.Minimum)
	number("to", s.Maximum)
	if s.MaxLength != nil {
		list = append(list, fmt.Sprintf("at most %d characters", *s.MaxLength))
	}
	if s.Pattern != "" {
		list = append(list, s.Pattern)
	}
	if s.Default != nil {
		list = append(list, fmt.Sprintf("%v by default", s.Default))
	}
	return strings.Join(list, ", ")
}
