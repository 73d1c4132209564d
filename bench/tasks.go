package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

// A marked is a task, and a reply of some 500 bytes to it that passes.
type marked struct {
	task  task.Task
	reply string
}

// tasks measures the making and marking of tasks, of all templates in turn but those whose
// answer a chain gives, on one core.
func (b *bench) tasks(ctx context.Context) error {
	entry := task.Entry{Kind: task.A2A, Name: "skill", Label: "Everyday Helper"}
	type order struct {
		template task.Template
		seed     domain.Hash
	}
	var orders []order
	var replies []marked
	for k := range 64 {
		for _, t := range task.Catalogue() {
			seed := domain.Sum([]byte(t.ID), []byte(strconv.Itoa(k)))
			made, err := task.Generate(t.ID, t.Version, seed, entry)
			if err != nil {
				return err
			}
			if made.Deferred == nil {
				orders = append(orders, order{t, seed})
				replies = append(replies, marked{made, replyTo(made)})
			}
		}
	}
	generate := func(i int) error {
		_, err := task.Generate(orders[i].template.ID, orders[i].template.Version, orders[i].seed, entry)
		return err
	}
	encode := func(i int) error {
		_, err := json.Marshal(replies[i].task)
		return err
	}
	mark := func(i int) error {
		if g := task.Mark(replies[i].task, replies[i].reply); g.Outcome != task.Pass {
			return fmt.Errorf("the right answer to %q is marked %s", replies[i].task.Prompt, g.Outcome)
		}
		return nil
	}
	find := func(i int) error {
		if !strings.Contains(replies[i].reply, replies[i].task.Expected.Value) {
			return errors.New("an answer is not in its reply")
		}
		return nil
	}
	return b.hold(ctx,
		doing("task generated", side{run: b.turns(len(orders), generate)}, side{"encoding/json of it", b.turns(len(replies), encode)}),
		doing("reply of 500 bytes graded", side{run: b.turns(len(replies), mark)}, side{"strings.Contains of its answer", b.turns(len(replies), find)}),
	)
}

// turns returns a run that does f with each number below n, over and over, for a quarter
// of a measurement.
func (b *bench) turns(n int, f func(int) error) func(context.Context) ([]figure, error) {
	return func(context.Context) ([]figure, error) {
		done := 0
		began, spent := time.Now(), processor()
		for time.Since(began) < b.length/4 {
			for i := range n {
				if err := f(i); err != nil {
					return nil, err
				}
			}
			done += n
		}
		return []figure{
			{perSecond, float64(done) / time.Since(began).Seconds()},
			{microCPU, float64((processor() - spent).Nanoseconds()) / 1000 / float64(done)},
		}, nil
	}
}

// replyTo returns a reply that leads to the answer of a task.
func replyTo(t task.Task) string {
	answer := " So the answer is " + t.Expected.Value + "."
	const size = 500
	reply := strings.Repeat("I went through it step by step and checked it twice. ", size/50)
	return strings.TrimSpace(reply[:max(0, size-len(answer))]) + answer
}
