package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
)

// A document is the part of openapi.json that answers are held against.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID        string `json:"operationId"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Additional any                `json:"additionalProperties"`
	Items      *schema            `json:"items"`
	OneOf      []*schema          `json:"oneOf"`
	Enum       []any              `json:"enum"`
}

var published = sync.OnceValue(func() (d document) {
	data, err := os.ReadFile("openapi.json")
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		panic(err)
	}
	return d
})

// held holds an answer against the document: its status and type are declared,
// and its body is as the schema says. Paths outside the document are none of it.
func held(method, path string, a answer) error {
	path, _, _ = strings.Cut(path, "?")
	op, ok := published().find(path, strings.ToLower(method))
	if !ok || method == http.MethodHead {
		return nil
	}
	response, ok := op.Responses[fmt.Sprint(a.status)]
	if !ok {
		return fmt.Errorf("status %d is not declared", a.status)
	}
	if a.status == http.StatusNotModified {
		if a.body != "" || a.header.Get("Content-Type") != "" || a.header.Get("ETag") == "" {
			return fmt.Errorf("a 304 has body %q, type %q and tag %q", a.body, a.header.Get("Content-Type"), a.header.Get("ETag"))
		}
		return nil
	}
	content, ok := response.Content[a.header.Get("Content-Type")]
	if !ok {
		return fmt.Errorf("content type %q is not declared for %d", a.header.Get("Content-Type"), a.status)
	}
	if t := a.header.Get("Content-Type"); !strings.HasSuffix(t, "json") || t == "application/x-ndjson" {
		return nil // a text, or several
	}
	var body any
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		return err
	}
	return published().check("body", content.Schema, body)
}

func (d document) find(path, method string) (operation, bool) {
	parts := strings.Split(path, "/")
	best, variables := operation{}, 99
	for template, methods := range d.Paths {
		names := strings.Split(template, "/")
		op, ok := methods[method]
		if !ok || len(names) != len(parts) {
			continue
		}
		n := 0
		for i, name := range names {
			if strings.HasPrefix(name, "{") {
				n++
			} else if name != parts[i] {
				n = 99
			}
		}
		if n < variables {
			best, variables = op, n
		}
	}
	return best, variables < 99
}

func (d document) check(where string, s *schema, v any) error {
	if s == nil {
		return nil
	}
	if s.Ref != "" {
		return d.check(where, d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]], v)
	}
	if len(s.OneOf) > 0 {
		for _, one := range s.OneOf {
			if d.check(where, one, v) == nil {
				return nil
			}
		}
		return fmt.Errorf("%s is none of what it may be", where)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s is %v, not one of %v", where, v, s.Enum)
	}
	if !s.takes(v) {
		return fmt.Errorf("%s is a %T, not %v", where, v, s.Type)
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if err := d.check(fmt.Sprintf("%s[%d]", where, i), s.Items, item); err != nil {
				return err
			}
		}
	case map[string]any:
		return d.checkObject(where, s, v)
	}
	return nil
}

func (d document) checkObject(where string, s *schema, o map[string]any) error {
	for _, name := range s.Required {
		if _, ok := o[name]; !ok {
			return fmt.Errorf("%s has no %s", where, name)
		}
	}
	for name, v := range o {
		property, ok := s.Properties[name]
		if !ok && s.Additional == false {
			return fmt.Errorf("%s has %s, which is not declared", where, name)
		}
		if err := d.check(where+"."+name, property, v); err != nil {
			return err
		}
	}
	return nil
}

// takes reports whether v is of a type of s.
func (s *schema) takes(v any) bool {
	if s.Type == nil {
		return true
	}
	types, ok := s.Type.([]any)
	if !ok {
		types = []any{s.Type}
	}
	switch v.(type) {
	case nil:
		return slices.Contains(types, "null")
	case bool:
		return slices.Contains(types, "boolean")
	case string:
		return slices.Contains(types, "string")
	case float64:
		return slices.Contains(types, "integer") || slices.Contains(types, "number")
	case []any:
		return slices.Contains(types, "array")
	}
	return slices.Contains(types, "object")
}
