package task

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// A refusal is one way to decline. Most sentences hold none of its signs, of which
// every match holds one, and a search for these costs far less than a match.
type refusal struct {
	signs []string
	says  *regexp.Regexp
}

// Refusals open a sentence or a clause, perhaps behind an apology. The verbs keep
// "I can't believe it" and "I cannot be sure" out. Typographic apostrophes have
// been folded.
var refusals = []refusal{
	// English
	{
		[]string{"can't", "cant", "cannot", "can not", "could not", "couldn't", "won't", "will not", "able to", "not in a position"},
		regexp.MustCompile(`^(i|we)('m| am|'re| are)? ?(can'?t|cannot|can not|could not|couldn't|won't|will not|unable to|not able to|not in a position to)( \w+ly)? ` +
			`(help|assist|do|compute|calculate|answer|provide|perform|process|convert|determine|run|access|look|give|complete|comply|fulfil|fulfill|` +
			`support|hash|encode|tell|share|handle|carry|work|respond|execute|generate|produce|offer|make|add|find|solve|engage|discuss)\b`),
	},
	{
		[]string{"decline", "refuse", "pass on"},
		regexp.MustCompile(`^(i|we)( must| have to| will|'ll| would)?( \w+ly)? (decline|refuse|pass on)\b`),
	},
	{
		[]string{"have no", "don't have", "do not have", "lack"},
		regexp.MustCompile(`^(i|we) (have no|don't have|do not have|lack)\b.{0,40}\b(access|ability|capability|tool|tools|way|permission|means)\b`),
	},
	{
		[]string{"allowed", "permitted", "designed", "programmed", "equipped", "authori"},
		regexp.MustCompile(`^(i|we)('m| am|'re| are) not (allowed|permitted|designed|programmed|equipped|authori[sz]ed)\b`),
	},
	{
		[]string{"able to", "cannot", "can't"},
		regexp.MustCompile(`^(unable to|not able to|cannot|can't) (help|assist|compute|calculate|answer|comply|process|convert|complete|provide|perform)\b`),
	},
	{
		[]string{"cannot be", "can't be", "can not be", "could not be"},
		regexp.MustCompile(`\b(cannot|can't|can not|could not) be (determined|computed|calculated|answered|converted|found|completed|provided|processed)\b`),
	},
	{
		[]string{"declined", "denied", "refused", "rejected", "not supported", "out of scope"},
		regexp.MustCompile(`^(this|that|your|the) (request|question|task) (is|was|has been) (declined|denied|refused|rejected|not supported|out of scope)\b`),
	},
	// Spanish, Portuguese
	{
		[]string{"no p", "no s", "no t", "no me", "no estoy"},
		regexp.MustCompile(`^(yo )?no (puedo|podemos|soy capaz|somos capaces|tengo acceso|me es posible|estoy autorizad)`),
	},
	{
		[]string{"não "},
		regexp.MustCompile(`^(eu )?não (posso|podemos|consigo|conseguimos|tenho acesso|sou capaz|estou autorizad)`),
	},
	// French
	{
		[]string{"ne ", "n'ai pas", "refuse"},
		regexp.MustCompile(`^(je|nous) (ne (peux|pouvons|suis|sommes|saurais|dispose|puis)\b|n'ai pas accès|n'ai pas la possibilité|refuse)`),
	},
	// German
	{
		[]string{"kann", "können", "darf", "dürfen"},
		regexp.MustCompile(`^(ich |wir )?(kann|können|darf|dürfen) (ich |wir )?.{0,60}\b(nicht|keine|keinen|kein)\b`),
	},
	{
		[]string{"lehne", "nicht in der lage", "keinen zugriff"},
		regexp.MustCompile(`^(ich|wir) (lehne|lehnen|bin nicht in der lage|sind nicht in der lage|habe keinen zugriff)`),
	},
	// Chinese, Japanese
	{
		[]string{"无法", "不能", "没法", "没有办法", "拒绝", "無法"},
		regexp.MustCompile(`^(我|我们|本助手)?(无法|不能|没法|没有办法|拒绝|無法)`),
	},
	{
		[]string{"できません", "出来ません", "いたしかねます", "できかねます", "お断りします"},
		regexp.MustCompile(`(できません|出来ません|いたしかねます|できかねます|お断りします)`),
	},
	// Russian
	{
		[]string{"не ", "отказыва"},
		regexp.MustCompile(`^(я |мы )?(не (могу|можем|в состоянии|имею)|отказываюсь|отказываемся)`),
	},
}

// apology is what may stand before a refusal.
var apology = regexp.MustCompile(`^(?:(?:(?:i'm|i am|we're|we are) )?(?:very |so |really |terribly )?(?:sorry|afraid)|unfortunately|regrettably|apologies|` +
	`i apologi[sz]e|my apologies|as an ai(?: \w+){0,3}|but|so|that|and|however|` +
	`lo siento(?: mucho)?|lamentablemente|perdón|disculpa|disculpe|pero|` +
	`je suis (?:vraiment )?désolée?|désolée?|malheureusement|mais|` +
	`(?:es )?tut mir leid|leider|entschuldigung|aber|` +
	`desculpe|desculpa|lamento|sinto muito|infelizmente|mas|` +
	`很抱歉|抱歉|对不起|對不起|不好意思|申し訳ありませんが|申し訳ございませんが|すみませんが|` +
	`извините|простите|к сожалению|но)[ ,:!-]*`)

// What is looked at for refusals: the beginning of the reply, some apologies.
const (
	maxRefusal   = 8 << 10
	maxApologies = 4
)

// refuses reports whether a sentence or clause of text declines the question.
func refuses(text []byte) bool {
	text = text[:min(len(text), maxRefusal)]
	folded := strings.ToLower(strings.ToValidUTF8(string(bytes.ReplaceAll(text, []byte("*"), nil)), " "))
	sentences := strings.FieldsFunc(folded, func(r rune) bool { return strings.ContainsRune(".!?;:,\n\"", r) || r < ' ' })
	return slices.ContainsFunc(sentences, declines)
}

// declines reports whether a sentence or clause is a refusal.
func declines(s string) bool {
	opened := false
	for _, r := range refusals {
		if !slices.ContainsFunc(r.signs, func(sign string) bool { return strings.Contains(s, sign) }) {
			continue
		}
		if !opened {
			s, opened = withoutApologies(s), true
		}
		if r.says.MatchString(s) {
			return true
		}
	}
	return false
}

func withoutApologies(s string) string {
	s = strings.TrimLeft(s, " -#>`'_(")
	for range maxApologies {
		sorry := apology.FindString(s)
		if sorry == "" {
			break
		}
		s = s[len(sorry):]
	}
	return s
}
