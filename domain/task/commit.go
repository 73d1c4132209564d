package task

import (
	"bytes"
	"slices"
)

// reach is how far a marker looks for its value within its sentence.
const reach = 160

// marked returns the index of the value at the last explicit marker, or -1.
// Markers without a value of the asked kind are passed over.
func marked(kind AnswerKind, text []byte, values []value) int {
	if len(values) == 0 {
		return -1
	}
	for i, c := range slices.Backward(text) {
		at := -1
		switch {
		case c == openMark:
			at = valueInside(text, values, i)
		case c == '=':
			at = valueBehindEquals(kind, text, values, i)
		case isLetter(c) && (i == 0 || !isAlnum(text[i-1])):
			at = valueAtWord(text, values, i)
		}
		if at >= 0 {
			return at
		}
	}
	return -1
}

// from returns the index of the first value that starts at or behind i.
func from(values []value, i int) int {
	n, _ := slices.BinarySearchFunc(values, i, func(v value, i int) int { return v.start - i })
	return n
}

// valueInside returns the first value inside a box or bold print that opens at i.
func valueInside(text []byte, values []value, i int) int {
	end := i + 1 + reach
	if closed := bytes.IndexByte(text[i:min(len(text), end)], closeMark); closed >= 0 {
		end = i + closed
	}
	if n := from(values, i); n < len(values) && values[n].end <= end {
		return n
	}
	return -1
}

// valueBehindEquals returns the value right behind an equals sign, unless that
// states a factor: "(1 mile = 1.609344 km)".
func valueBehindEquals(kind AnswerKind, text []byte, values []value, i int) int {
	if kind == Base64 && i > 0 && text[i-1] != ' ' { // padding
		return -1
	}
	if i > 0 && bytes.IndexByte([]byte("<>!=~"), text[i-1]) >= 0 {
		return -1
	}
	n := from(values, i)
	if n == len(values) || values[n].start-i > 16 {
		return -1
	}
	for _, c := range text[i+1 : values[n].start] {
		if isAlnum(c) || c == '\n' || c == '=' || c == ',' {
			return -1
		}
	}
	if inBrackets(text, i) || statesFactor(text, i) {
		return -1
	}
	return n
}

// inBrackets reports whether i stands behind an opening round bracket on its line
// that is not closed before it.
func inBrackets(text []byte, i int) bool {
	depth := 0
	for j := i - 1; j >= max(0, i-reach); j-- {
		switch text[j] {
		case '\n':
			return false
		case ')':
			depth++
		case '(':
			if depth == 0 {
				return true
			}
			depth--
		}
	}
	return false
}

// statesFactor reports whether the left side of an equals sign is "1 unit".
func statesFactor(text []byte, i int) bool {
	left := text[max(0, i-40):i]
	if cut := bytes.LastIndexAny(left, "\n,;:(.="); cut >= 0 {
		left = left[cut+1:]
	}
	if one := bytes.LastIndexByte(left, '1'); one >= 0 {
		alone := (one == 0 || !isAlnum(left[one-1])) && one+1 < len(left) && left[one+1] == ' '
		return alone && !slices.ContainsFunc(left[one+1:], isDigit)
	}
	return false
}

// answerWords are those that may follow "final".
var answerWords = makeSet("answer result value figure number balance total amount date digest hash")

// valueAtWord returns the value that belongs to a word such as "answer" at i: the
// next in its sentence, else the one before in the same sentence.
func valueAtWord(text []byte, values []value, i int) int {
	end := i
	for end < len(text) && isLetter(text[end]) && end-i < 16 {
		end++
	}
	var word folded
	switch string(word.fold(text[i:end])) {
	case "answer":
	case "result":
		if bytes.HasSuffix(bytes.ToLower(text[max(0, i-5):i]), []byte("as a ")) {
			return -1
		}
	case "final":
		var room [16][]byte
		rest := words(room[:0], text[end:min(len(text), end+24)])
		if len(rest) == 0 || string(rest[0]) != ":" && !answerWords[string(rest[0])] {
			return -1
		}
	case "value":
		if !bytes.HasPrefix(text[end:], []byte(`"`)) || i == 0 || text[i-1] != '"' {
			return -1 // a word like any other, but as a key of JSON
		}
	default:
		return -1
	}
	start := end
	for start < len(text) && bytes.IndexByte([]byte(" \n\t:*_\"'`#>"+"\x01\x02"), text[start]) >= 0 {
		start++
	}
	if n := from(values, end); n < len(values) && values[n].start <= sentenceEnd(text, start) {
		return n
	}
	if n := from(values, i) - 1; n >= 0 && values[n].end > sentenceStart(text, i) {
		return n
	}
	return -1
}

// sentenceEnd returns where the sentence that holds i ends, within reach.
func sentenceEnd(text []byte, i int) int {
	end := min(len(text), i+reach)
	for j := i; j < end; j++ {
		if endsSentence(text, j) {
			return j
		}
	}
	return end
}

// sentenceStart returns where the sentence that holds i starts, within reach.
func sentenceStart(text []byte, i int) int {
	start := max(0, i-reach)
	for j := i - 1; j > start; j-- {
		if endsSentence(text, j) {
			return j + 1
		}
	}
	return start
}

func endsSentence(text []byte, i int) bool {
	switch text[i] {
	case '\n':
		return true
	case '.', '!', '?', ';':
		return i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n'
	}
	return false
}

var hedges = makeSet("or maybe perhaps possibly alternatively either")

// hedged reports whether value i stands in a list with a different value.
func hedged(text []byte, found values, i int) bool {
	list := found.list
	if i > 0 && listGap(text[list[i-1].end:list[i].start]) && !found.right(i-1) {
		return true
	}
	return i+1 < len(list) && listGap(text[list[i].end:list[i+1].start]) && !found.right(i+1)
}

// listGap reports whether what stands between two values makes them items of a
// list or ends of a range.
func listGap(gap []byte) bool {
	const widest = 32
	if len(gap) > widest {
		return false
	}
	var room [16][]byte
	bare := true
	for _, w := range words(room[:0], gap) {
		if hedges[string(w)] {
			return true
		}
		switch string(w) {
		case ".", "!", "?", ":", "(", ")":
			return false
		case "and", "to", ",", ";", "\n":
		default:
			bare = false
		}
	}
	return bare && len(bytes.Trim(gap, " \n\t,;-/&~$€£%°+andto[]\"'")) == 0
}

// negated reports whether v stands under a "not".
func negated(text []byte, v value) bool {
	var room [16][]byte
	list := words(room[:0], text[max(0, v.start-32):v.start])
	for _, w := range slices.Backward(list[max(0, len(list)-2):]) {
		switch string(w) {
		case "not", "never", "nor", "isn't", "wasn't":
			return true
		case "but":
			return false
		}
		if len(w) == 1 && !isLetter(w[0]) {
			return false
		}
	}
	return false
}
