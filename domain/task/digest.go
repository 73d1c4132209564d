package task

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"sync"

	"github.com/karatum/mystery/domain"
)

// samples is how many tasks of each template the digest covers.
const samples = 64

// sampleSeed is H(u32be k).
func sampleSeed(k uint32) domain.Hash { return domain.Sum(binary.BigEndian.AppendUint32(nil, k)) }

// sampleEntry is the entry of sample k: in turn an A2A skill that may be
// mentioned, a tool that takes the prompt, and a tool that takes every part.
func (t Template) sampleEntry(k uint32) Entry {
	if len(t.parameters) == 0 && k%3 == 2 {
		k-- // there are no parts to take
	}
	switch k % 3 {
	case 0:
		return Entry{Kind: A2A, Name: t.ID, Label: "Everyday Sums"}
	case 1:
		return Entry{Kind: MCP, Name: t.ID, Text: "prompt"}
	}
	e := Entry{Kind: MCP, Name: t.ID}
	for _, p := range t.parameters {
		e.Fields = append(e.Fields, Field{Role: p.role, Property: string(p.role)})
	}
	return e
}

// corpus is a collection of replies of all sorts, with what was asked.
//
//go:embed testdata/answer_cases.json
var corpus []byte

// digest is computed once: it makes some hundred tasks and marks the corpus.
var digest = sync.OnceValue(func() domain.Hash {
	type templateDigest struct {
		ID      string      `json:"id"`
		Version uint32      `json:"version"`
		Tasks   domain.Hash `json:"tasks"`
	}
	type graderDigest struct {
		Grader   uint32      `json:"grader"`
		Outcomes domain.Hash `json:"outcomes"`
	}
	var list []any
	for _, t := range catalogue() {
		tasks := make([]Task, samples)
		for k := range tasks {
			sample := uint32(k)
			made, err := t.generate(sampleSeed(sample), t.sampleEntry(sample), maxDraws)
			if err != nil {
				panic("task: sample of " + t.ID + ": " + err.Error())
			}
			tasks[k] = made
		}
		list = append(list, templateDigest{t.ID, t.Version, hashJSON(tasks)})
	}
	var cases []Case
	if err := json.Unmarshal(corpus, &cases); err != nil {
		panic("task: corpus: " + err.Error())
	}
	type outcome struct {
		ID string `json:"id"`
		Grade
	}
	outcomes := make([]outcome, len(cases))
	for i, c := range cases {
		t, err := c.Task()
		if err != nil {
			panic("task: corpus: " + err.Error())
		}
		outcomes[i] = outcome{c.ID, Mark(t, c.Reply)}
	}
	list = append(list, graderDigest{GraderVersion, hashJSON(outcomes)})
	return hashJSON(list)
})

// Digest says how the catalogue behaves: it changes exactly if a task or a mark
// does. It is
//
//	H(JCS([{id, version, tasks}…, {grader, outcomes}]))
//
// with one object for each template by ID, tasks = H(JCS([task for seed H(u32be k)]))
// for k < 64 put in turn to a skill, to a tool that takes text and to a tool that
// takes parts, and outcomes = H(JCS([{id, outcome, rule, literal, offset, length}]))
// over the embedded corpus.
func Digest() domain.Hash { return digest() }
