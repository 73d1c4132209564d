package explorer

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/projections"
)

// A Reference is the interface for programs as its document describes it.
type Reference struct {
	Description string
	Groups      []OperationGroup
}

// An OperationGroup is the operations of one sort.
type OperationGroup struct {
	Name       string // short, for addresses
	Title      string
	Operations []Operation
}

// An Operation is one thing that programs can ask for.
type Operation struct {
	ID          string
	Method      string
	Path        string
	Summary     string
	Description string
	Parameters  []Field
	Bodies      []Content // that a request may have
	Answers     []Reply
	Objects     []Object // that bodies are made of, each behind what names it first
}

// A Reply is what an operation answers with.
type Reply struct {
	Status  string
	Text    string
	Headers []Field
	Bodies  []Content
}

// A Content is a body in one form.
type Content struct {
	Media string
	Type  Type
	Text  string
}

// An Object is a JSON object with a name.
type Object struct {
	Name   string
	Text   string
	Fields []Field
}

// A Field is a parameter, a header or a member of an object.
type Field struct {
	Name    string
	In      string // of a parameter: path, query or header
	Type    Type
	Needed  bool
	Text    string
	Example string
}

// A Type says in words what a value is, such as "list of" and an object.
type Type struct {
	Words  string
	Object string // the name of an object; may be empty
	Limits string // may be empty
}

type docsPage struct {
	frame

	Reference *Reference
	Operation *Operation // nil on the page of all
}

// docs shows all operations, or one of them.
func (p *Pages) docs(r *http.Request, f frame, _ projections.Status) (any, error) {
	v := docsPage{frame: f, Reference: p.config.Reference()}
	v.Title, v.Description = "The interface for programs", "Every path of the Mystery Shopper's HTTP interface, what it takes and what it answers."
	id := chi.URLParam(r, "operation")
	if id == "" {
		return v, nil
	}
	for _, g := range v.Reference.Groups {
		for _, o := range g.Operations {
			if o.ID == id {
				v.Title, v.Description, v.Operation = o.Summary, o.Method+" "+o.Path, &o
				return v, nil
			}
		}
	}
	return nil, fmt.Errorf("there is no operation %.40q: %w", id, domain.ErrNotFound)
}
