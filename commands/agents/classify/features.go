package classify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Request is one request as it came over the wire.
type Request struct {
	Head string // up to its empty line, that not included
	Body []byte

	Segments int           // of TCP that it came in, where the system counts them
	Pause    time.Duration // the longest between two reads of its parts
	Nth      int           // on its connection, from 1
}

// Features lists what there is to see in a request, each feature once. The values
// that every client has of its own by right, such as the name of the host it was
// sent to, and the words of a task are left out.
func (r Request) Features() []string {
	lines := strings.Split(r.Head, "\r\n")
	method, rest, _ := strings.Cut(lines[0], " ")
	_, version, _ := strings.Cut(rest, " ")
	fs := []string{
		"method is " + method, "version is " + version,
		fmt.Sprintf("comes in %d segments", r.Segments), "pauses " + roughly(r.Pause),
		fmt.Sprintf("is number %d on its connection", r.Nth),
	}
	fs = append(fs, headFeatures(method, lines[1:])...)
	if len(r.Body) > 0 {
		fs = append(fs, bodyFeatures(r.Body)...)
	}
	slices.Sort(fs)
	return slices.Compact(fs)
}

// roughly says how long a pause was, in steps that outlast a way over a network and
// a machine with much to do, which puts a few milliseconds between any two writes.
func roughly(d time.Duration) string {
	for _, limit := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond} {
		if d < limit {
			return "less than " + limit.String()
		}
	}
	return "longer"
}

func headFeatures(method string, fields []string) (fs []string) {
	var order []string
	for i, f := range fields {
		spelled, value, _ := strings.Cut(f, ":")
		name := strings.ToLower(spelled)
		order = append(order, spelled)
		fs = append(fs,
			"has "+name,
			"spells "+spelled,
			fmt.Sprintf("%s in place %d", name, i),
			fmt.Sprintf("%s in place %d from the end", name, len(fields)-i),
			"has "+name+" with "+method,
		)
		if i > 0 {
			before, _, _ := strings.Cut(fields[i-1], ":")
			fs = append(fs, strings.ToLower(before)+" before "+name)
		}
		switch name {
		case "host", "content-length", "mcp-session-id": // of the server, of the words, of the server
			fs = append(fs, fmt.Sprintf("%s begins with %d spaces", name, len(value)-len(strings.TrimLeft(value, " "))))
		default:
			fs = append(fs, name+":"+value)
		}
	}
	return append(fs, "head is "+strings.Join(order, ", "))
}

var (
	uuidText   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	hexText    = regexp.MustCompile(`^[0-9a-f]+$`)
	upperText  = regexp.MustCompile(`^[0-9A-F-]+$`)
	simpleText = regexp.MustCompile(`^[A-Za-z0-9_./ -]{1,32}$`)
	escapes    = regexp.MustCompile(`\\(?:u[0-9a-f]{4}|u[0-9A-Fa-f]{4}|.)`)
)

func bodyFeatures(body []byte) []string {
	fs := []string{
		fmt.Sprintf("body ends in %q", body[len(body)-1]),
		fmt.Sprintf("space behind colons is %t", bytes.Contains(body, []byte(`": `))),
		fmt.Sprintf("space behind commas is %t", bytes.Contains(body, []byte(`, "`))),
		fmt.Sprintf("ASCII only is %t", !bytes.ContainsFunc(body, func(r rune) bool { return r > 0x7e })),
		fmt.Sprintf("raw angle brackets are %t", bytes.ContainsAny(body, "<>&")),
	}
	for _, e := range escapes.FindAll(body, -1) {
		fs = append(fs, "escapes "+kindOf(e))
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if more, err := valueFeatures(d, ""); err == nil {
		fs = append(fs, more...)
	} else {
		fs = append(fs, "body is no JSON")
	}
	return fs
}

func kindOf(escape []byte) string {
	s := string(escape)
	switch {
	case !strings.HasPrefix(s, `\u`):
		return s
	case s[2:] != strings.ToLower(s[2:]):
		return `\u in upper case`
	case strings.HasPrefix(s, `\u00`):
		return s
	default:
		return `\u in lower case`
	}
}

// valueFeatures reads the next value and says of each object below it which keys
// it has in which order, and of each other value what it looks like.
func valueFeatures(d *json.Decoder, path string) (fs []string, err error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, nested := token.(json.Delim)
	if !nested {
		return []string{path + " is " + look(token), fmt.Sprintf("%s is of type %T", path, token)}, nil
	}
	var keys []string
	for n := 0; d.More(); n++ {
		below := path + "/" + strconv.Itoa(n)
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			keys = append(keys, fmt.Sprint(key))
			below = path + "/" + fmt.Sprint(key)
		}
		more, err := valueFeatures(d, below)
		if err != nil {
			return nil, err
		}
		fs = append(fs, more...)
	}
	if _, err := d.Token(); err != nil { // the end of it
		return nil, err
	}
	return append(fs, fmt.Sprintf("%s %v with keys %s", path, delim, strings.Join(keys, ", "))), nil
}

// look says what a value looks like: short words and numbers are themselves, ids
// are of their kind, and all else is text.
func look(token json.Token) string {
	s, ok := token.(string)
	switch {
	case !ok:
		return fmt.Sprint(token)
	case uuidText.MatchString(s):
		return "a UUID of version " + uuidText.FindStringSubmatch(s)[1]
	case len(s) >= 8 && hexText.MatchString(s):
		return fmt.Sprintf("%d hex digits", len(s))
	case len(s) >= 8 && upperText.MatchString(s):
		return fmt.Sprintf("%d hex digits in upper case", len(s))
	case simpleText.MatchString(s):
		return strconv.Quote(s)
	}
	return "text"
}
