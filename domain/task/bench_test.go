package task_test

import (
	"strings"
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

// BenchmarkGenerate makes tasks of all templates in turn; an operation is one task.
func BenchmarkGenerate(b *testing.B) {
	templates := task.Catalogue()
	seeds := make([]domain.Hash, 1<<12)
	for k := range seeds {
		seeds[k] = seed("bench", k)
	}
	e := skill("Everyday Helper")
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		t := templates[k%len(templates)]
		if _, err := task.Generate(t.ID, t.Version, seeds[k/len(templates)%len(seeds)], e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMark marks replies of 500 bytes to tasks of all templates in turn; an
// operation is one reply.
func BenchmarkMark(b *testing.B) {
	type marked struct {
		task  task.Task
		reply string
	}
	var replies []marked
	for _, t := range task.Catalogue() {
		for k := range 16 {
			made := generate(b, t.ID, seed("bench", k), skill(""))
			reply := "Sure, happy to help with that. "
			for len(reply) < 500-len("So the answer is "+made.Expected.Value+".") {
				reply += "I went through it step by step and checked it twice. "
			}
			reply = strings.TrimSpace(reply[:max(0, 500-len("So the answer is "+made.Expected.Value+"."))]) + " So the answer is " + made.Expected.Value + "."
			replies = append(replies, marked{made, reply})
		}
	}
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		m := replies[k%len(replies)]
		if g := task.Mark(m.task, m.reply); g.Outcome != task.Pass {
			b.Fatalf("Mark(%q, %q) = %+v, want a pass", m.task.Prompt, m.reply, g)
		}
	}
}
