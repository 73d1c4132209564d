package task

import (
	"bytes"
)

// A mask finds what holds digits but is no number to answer with: dates, hex
// after 0x, addresses of pages, exponents, list numbers and labels.
type mask struct {
	text   []byte
	dates  []dateToken
	labels bool
	listed bool // lines are numbered
	word   span // the last word that was passed
}

func newMask(text []byte) *mask {
	return &mask{text: text, dates: scanDates(text, false), labels: true, listed: numberedLines(text)}
}

// skip returns where the masked thing that starts at i ends, or i if nothing
// does. It is called with rising i.
func (m *mask) skip(i int) int {
	for len(m.dates) > 0 && m.dates[0].start < i {
		m.dates = m.dates[1:]
	}
	if len(m.dates) > 0 && m.dates[0].start == i {
		return m.dates[0].end
	}
	c := m.text[i]
	switch {
	case isLetter(c):
		return m.skipWord(i)
	case c == '^':
		return m.skipExponent(i)
	case c == '0' && i+2 < len(m.text) && m.text[i+1]|0x20 == 'x':
		end := i + 2
		for end < len(m.text) && isAlnum(m.text[end]) {
			end++
		}
		return end
	case isDigit(c) && m.labels:
		return m.skipLabel(i)
	}
	return i
}

func (m *mask) skipExponent(i int) int {
	end := i + 1
	for end < len(m.text) && (isDigit(m.text[end]) || m.text[end] == '-' || m.text[end] == '+' || m.text[end] == '.') {
		end++
	}
	return end
}

// skipWord passes a word, so that digits inside it are not looked at.
func (m *mask) skipWord(i int) int {
	if m.text[i] == 'h' && (bytes.HasPrefix(m.text[i:], []byte("http://")) || bytes.HasPrefix(m.text[i:], []byte("https://"))) {
		if end := bytes.IndexAny(m.text[i:], " \n\t\"')>"); end > 0 {
			return i + end
		}
		return len(m.text)
	}
	end := i
	for end < len(m.text) && isLetter(m.text[end]) {
		end++
	}
	m.word = span{i, end}
	if end < len(m.text) && isDigit(m.text[end]) {
		var name folded
		if !prefixes[string(name.fold(m.text[i:end]))] {
			end = endOfName(m.text, end)
		}
	}
	return end
}

// labelWords name the thing that a number behind them counts or identifies.
var labelWords = makeSet("question task step invoice job id no item order page section chapter part ref reference ticket case example " +
	"equation figure version exercise problem line row year round phase attempt option note")

// skipLabel passes the number of a label, "step 3 of 5", or of a numbered line.
func (m *mask) skipLabel(i int) int {
	end := i
	for end < len(m.text) && isDigit(m.text[end]) {
		end++
	}
	if end < len(m.text) && (isLetter(m.text[end]) || end+1 < len(m.text) && m.text[end] != ' ' && isDigit(m.text[end+1])) {
		return i // more than a plain number
	}
	gap := m.text[m.word.end:i]
	if m.word.end > 0 && len(gap) <= 3 && len(bytes.Trim(gap, " #:.")) == 0 {
		var label folded
		if labelWords[string(label.fold(m.text[m.word.start:m.word.end]))] {
			return m.skipOf(end)
		}
	}
	if bytes.HasSuffix(m.text[:i], []byte("#")) {
		return end
	}
	if m.listed && end-i <= 2 && isLineNumber(m.text, i, end) {
		return end
	}
	return i
}

// skipOf passes the rest of "3 of 5".
func (m *mask) skipOf(i int) int {
	end := i
	for _, of := range []string{" of ", "/"} {
		if bytes.HasPrefix(m.text[i:], []byte(of)) {
			end = i + len(of)
			for end < len(m.text) && isDigit(m.text[end]) {
				end++
			}
			if end == i+len(of) {
				return i
			}
		}
	}
	return end
}

// folded is room for a word in lower case. Longer ones are cut: no word that is
// looked for has so many letters.
type folded [32]byte

// fold returns an ASCII word in lower case. It is good until the next call.
func (f *folded) fold(word []byte) []byte {
	n := copy(f[:], word)
	for i, c := range f[:n] {
		if c >= 'A' && c <= 'Z' {
			f[i] = c | 0x20
		}
	}
	return f[:n]
}

// isLineNumber reports whether text[i:end] numbers its line: first on it, with a
// point or bracket behind it and then more text.
func isLineNumber(text []byte, i, end int) bool {
	start := i
	for start > 0 && (text[start-1] == ' ' || text[start-1] == '\t') {
		start--
	}
	if start > 0 && text[start-1] != '\n' {
		return false
	}
	if end+2 >= len(text) || text[end] != '.' && text[end] != ')' || text[end+1] != ' ' {
		return false
	}
	rest := text[end+2:]
	if line := bytes.IndexByte(rest, '\n'); line >= 0 {
		rest = rest[:line]
	}
	return len(bytes.TrimSpace(rest)) > 0
}

// numberedLines reports whether lines of text are numbered: one has the number 1,
// or there are two and more.
func numberedLines(text []byte) bool {
	seen := 0
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimLeft(line, " \t")
		end := 0
		for end < min(len(trimmed), 3) && isDigit(trimmed[end]) {
			end++
		}
		if end == 0 || end > 2 || !isLineNumber(trimmed, 0, end) {
			continue
		}
		if seen++; seen > 1 || string(trimmed[:end]) == "1" {
			return true
		}
	}
	return false
}
