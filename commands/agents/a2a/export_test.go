package a2a

import "github.com/karatum/mystery/commands/agents"

// ReadResult is how the result of an answer is read.
func ReadResult(result []byte) (string, error) {
	a := &agents.Answer{Status: 200, Raw: result, Result: result}
	r, err := parseResult(a)
	if err != nil || r.pending() {
		return "", err
	}
	return r.text, r.verdict(a)
}
