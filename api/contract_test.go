package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A document is the part of openapi.json that answers are held against.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	at string // a JSON pointer into the document, once it is found

	ID        string `json:"operationId"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

// A schema is what tests look at by themselves. Answers are judged by a validator of others.
type schema struct {
	Ref        string             `json:"$ref"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
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

// judge says whether JSON is as the schema at a JSON pointer of the document says, which is
// one of JSON Schema 2020-12 (OpenAPI 3.1, section 4.8.24).
var judge = sync.OnceValue(func() func(pointer, body string) error {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	file, err := os.Open("openapi.json")
	if err == nil {
		defer file.Close()
		var doc any
		if doc, err = jsonschema.UnmarshalJSON(file); err == nil {
			err = c.AddResource("openapi.json", doc)
		}
	}
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex // a compiler is for one at a time
	return func(pointer, body string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			return err
		}
		mu.Lock()
		s, err := c.Compile("openapi.json#" + (&url.URL{Fragment: pointer}).EscapedFragment())
		mu.Unlock()
		if err != nil {
			return err
		}
		return s.Validate(v)
	}
})

// member is a name in a JSON pointer (RFC 6901).
func member(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

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
	t := a.header.Get("Content-Type")
	content, ok := response.Content[t]
	if !ok {
		return fmt.Errorf("content type %q is not declared for %d", t, a.status)
	}
	if content.Schema == nil || !strings.HasSuffix(t, "json") || t == "application/x-ndjson" {
		return nil // a text, or several
	}
	return judge()(op.at+"/responses/"+strconv.Itoa(a.status)+"/content"+member(t)+"/schema", a.body)
}

// What is not as the document says is found, or the judge might be blind.
func TestAnswersAreJudged(t *testing.T) {
	t.Parallel()
	const good = `{"items":[{"id":"cns_mfzwizlsmjrxg43vmvzc","state":"active","agent":"build:42","owner":"0x0000000000000000000000000000000000000001",` +
		`"firstDay":1,"firstDate":"1970-01-02","lastDay":2,"lastDate":"1970-01-03","url":"https://karatum.com/"}]}`
	for name, tt := range map[string]struct {
		old, new string
		ok       bool
	}{
		"as it is":         {"", "", true},
		"another state":    {`"active"`, `"asleep"`, false},
		"no number":        {`"firstDay":1`, `"firstDay":"1"`, false},
		"no date":          {`"1970-01-02"`, `"tomorrow"`, false},
		"without an id":    {`"id":`, `"cause":`, false},
		"something beside": {`"id":`, `"rank":1,"id":`, false},
	} {
		a := answer{http.StatusOK, http.Header{"Content-Type": {"application/json"}}, strings.Replace(good, tt.old, tt.new, 1)}
		if err := held(http.MethodGet, root+"/consents", a); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
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
			best.at = "/paths" + member(template) + "/" + method
		}
	}
	return best, variables < 99
}
