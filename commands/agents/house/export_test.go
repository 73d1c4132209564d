package house

import "net/http"

// Solve is the solver: the right answer, and the one that is surely wrong.
func Solve(question string) (right, wrong string, ok bool) {
	s, ok := solve(question)
	return s.right, s.wrong, ok
}

// Reply answers as one of the agents would, without the pause.
func Reply(name string, h http.Header, prompt string) string {
	answer := steady
	if name == "exam-aware" {
		answer = examAware
	}
	text, _ := answer(request{h, prompt, func() (solution, bool) { return solve(prompt) }})
	return text
}

// Pause returns how long one of the agents would think.
func Pause(name string, h http.Header, prompt string) int64 {
	answer := steady
	if name == "exam-aware" {
		answer = examAware
	}
	_, p := answer(request{h, prompt, func() (solution, bool) { return solve(prompt) }})
	return int64(p)
}

// BrushOff is what exam-aware says when it cannot be bothered.
const BrushOff = brushOff
