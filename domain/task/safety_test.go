package task_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/karatum/mystery/domain/task"
)

// scanned is how many tasks of each template are read.
func scanned() int {
	if raced || testing.Short() {
		return 2000
	}
	return 10_000
}

// fewer halves the seeds of a test where all is slow.
func fewer(n int) int {
	if raced || testing.Short() {
		return n / 2
	}
	return n
}

// unfit is what no question holds, however it is drawn.
var unfit = map[string]*regexp.Regexp{
	"injection": regexp.MustCompile(`(?i)\b(ignore|disregard|forget) (all|any|the|your|previous|everything)|system prompt|\byou are (now|an?|the)\b|jailbreak|` +
		`\bact as\b|pretend|developer mode|<\||\[/?INST|</?(system|user|assistant)|\bbase your answer`),
	"a credential": regexp.MustCompile(`(?i)password|passphrase|api[ _-]?key|secret|private key|seed phrase|mnemonic|credential|\blog ?in\b|bearer|` +
		`access token|\bpin\b|\bcvv\b`),
	"personal data":  regexp.MustCompile(`(?i)[\w.]+@[\w.]+|\+\d[\d ]{7,}|\b(mr|mrs|ms|dr)\. |passport|social security|\biban\b|birthday|born on`),
	"a real domain":  regexp.MustCompile(`(?i)https?:|www\.|\b[\w-]+\.(com|org|net|io|eth|dev|ai|app|xyz|co|info|gov|edu|de|uk|eu)\b`),
	"a state change": regexp.MustCompile(`(?i)\b(send|transfer|delete|remove|erase|buy|purchase|sell|swap|deploy|mint|approve|subscribe|upload|publish|withdraw|deposit|cancel|post|email|install|download|execute|update|book|register|submit|make a payment|pay (to|for|me|the))\b`),
	"a placeholder":  regexp.MustCompile(`[{}]|%!|<nil>|\s\s[A-Z]`),
}

// Ten thousand tasks of each template are harmless, and hardly two of them are
// the same. With k equal pairs among n, there are about n²/2k questions; fewer
// than 2^20 of them would show.
func TestTasksAreHarmlessAndMany(t *testing.T) {
	t.Parallel()
	for _, template := range task.Catalogue() {
		t.Run(template.ID, func(t *testing.T) {
			t.Parallel()
			n, same := scanned(), 0
			seen := make(map[string]int, n)
			for k := range n {
				made := generate(t, template.ID, seed("scan", k), skill("Everyday Helper"))
				prompt := strings.ReplaceAll(made.Prompt, "\n", " / ")
				for what, pattern := range unfit {
					if found := pattern.FindString(prompt); found != "" {
						t.Fatalf("%q holds %s: %q", made.Prompt, what, found)
					}
				}
				same += seen[made.Prompt+made.Expected.Value]
				seen[made.Prompt+made.Expected.Value]++
			}
			if limit := n * n / 2 / (1 << 20); same > limit {
				t.Errorf("%d pairs of %d tasks have the same prompt and answer, want %d at most", same, n, limit)
			}
		})
	}
}

// An agent that does nothing passes nothing.
func TestDoingNothingPassesNothing(t *testing.T) {
	t.Parallel()
	var numbers strings.Builder
	for n := range 500 {
		numbers.WriteString(strconv.Itoa(n+1) + " ")
	}
	for _, template := range task.Catalogue() {
		t.Run(template.ID, func(t *testing.T) {
			t.Parallel()
			for k := range 300 {
				made := generate(t, template.ID, seed("nothing", k), skill(""))
				for _, reply := range []string{"", made.Prompt, "I don't know", numbers.String()} {
					if g := task.Mark(made, reply); g.Outcome == task.Pass {
						t.Errorf("Mark(%q, %.60q) = %+v, want no pass", made.Prompt, reply, g)
					}
				}
			}
		})
	}
}
