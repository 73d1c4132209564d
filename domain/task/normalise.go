package task

import (
	"bytes"
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A document is a reply made ready for reading: at[i] is the offset in the reply
// of what became byte i of text.
type document struct {
	text    []byte
	at      []uint32
	literal bool // the plain rule reads the same text
}

// Marks that normalise leaves in the text where an answer is set off by \boxed or
// bold print. They cannot come from the reply, whose control characters become
// blanks.
const (
	openMark  = 0x01
	closeMark = 0x02
)

// fractionSlash parts numerator and denominator, as in the NFKC form of ½.
const fractionSlash = "\u2044"

// normalise undoes the many ways of writing one thing.
func normalise(reply string) document {
	n := normaliser{reply: reply, at: make([]uint32, 0, len(reply)+16)}
	n.run()
	return document{text: n.text, at: n.at, literal: !n.differs}
}

// literally undoes what the plain rule knows of. It keeps thinking blocks, other
// scripts and fractions.
func literally(reply string) []byte {
	n := normaliser{reply: reply, literal: true}
	n.run()
	return n.text
}

// textOf returns the text of a prompt as that of a reply would be.
func textOf(prompt string) []byte {
	n := normaliser{reply: prompt}
	n.run()
	return n.text
}

// ordinary are the bytes that stand for themselves wherever they stand. They are
// most of any reply.
var ordinary = func() (set [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		set[c] = bytes.IndexByte([]byte(`&\{}*`), c) < 0
	}
	return set
}()

type span struct{ start, end int }

var thinkingTags = []string{"think", "thinking", "thought", "reasoning"}

// invisible returns the spans of thinking blocks, in order, and where a new
// question ends the answer.
func invisible(reply string) (cuts []span, end int) {
	open, visible := -1, 0
	for i := strings.IndexByte(reply, '<'); i >= 0; i = following(reply, i, '<') {
		closing, size := thinkingTag(reply[i:])
		switch {
		case size == 0:
		case !closing && open < 0:
			open = i
		case closing && open >= 0:
			cuts = append(cuts, span{open, i + size})
			open, visible = -1, i+size
		case closing: // the opening tag was left out
			cuts = []span{{0, i + size}}
			visible = i + size
		}
	}
	if open >= 0 { // a thought that never ends
		return cuts, open
	}
	return cuts, visible + newQuestion(reply[visible:])
}

// following returns where the next c behind i stands, or -1.
func following(s string, i int, c byte) int {
	if next := strings.IndexByte(s[i+1:], c); next >= 0 {
		return i + 1 + next
	}
	return -1
}

func thinkingTag(s string) (closing bool, size int) {
	rest := s[1:]
	if strings.HasPrefix(rest, "/") {
		closing, rest = true, rest[1:]
	}
	for _, tag := range thinkingTags {
		if len(rest) > len(tag) && rest[len(tag)] == '>' && strings.EqualFold(rest[:len(tag)], tag) {
			return closing, len(s) - len(rest) + len(tag) + 1
		}
	}
	return false, 0
}

// newQuestion returns where a line behind the first one with text opens a
// question, or len(s).
func newQuestion(s string) int {
	answered := false
	for i := 0; i < len(s); {
		length := strings.IndexByte(s[i:], '\n') + 1
		if length == 0 {
			length = len(s) - i
		}
		line := strings.TrimLeft(s[i:i+length], " \t*#>")
		if answered && (hasPrefixFold(line, "question:") || hasPrefixFold(line, "q:")) {
			return i
		}
		answered = answered || strings.TrimSpace(line) != ""
		i += length
	}
	return len(s)
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

type normaliser struct {
	reply   string
	literal bool
	text    []byte
	at      []uint32 // nil if nobody asks
	differs bool     // literal would have made another text
	bold    bool
	braces  []byte // what each open brace ends with
}

func (n *normaliser) run() {
	n.text = make([]byte, 0, len(n.reply)+16)
	end := len(n.reply)
	var cuts []span
	if !n.literal {
		cuts, end = invisible(n.reply)
		n.differs = len(cuts) > 0 || end < len(n.reply)
	}
	for i := 0; i < end; {
		stop := end
		if len(cuts) > 0 {
			if stop = cuts[0].start; i >= stop {
				i = max(i, cuts[0].end)
				cuts = cuts[1:]
				n.emit(i, " ")
				continue
			}
		}
		if next := n.copyOrdinary(i, stop); next > i {
			i = next
			continue
		}
		i += n.step(i, end)
	}
}

// copyOrdinary copies what stands for itself from i on, and returns where that ends.
func (n *normaliser) copyOrdinary(i, stop int) int {
	from := i
	for i < stop && ordinary[n.reply[i]] {
		i++
	}
	n.text = append(n.text, n.reply[from:i]...)
	if n.at != nil {
		known := len(n.at)
		n.at = slices.Grow(n.at, i-from)[:known+i-from]
		for k := range n.at[known:] {
			n.at[known+k] = uint32(from + k) //nolint:gosec // below maxReply
		}
	}
	return i
}

func (n *normaliser) emit(from int, s string) {
	n.text = append(n.text, s...)
	if n.at != nil {
		for range len(s) {
			n.at = append(n.at, uint32(from)) //nolint:gosec // below maxReply
		}
	}
}

func (n *normaliser) last() byte {
	if len(n.text) == 0 {
		return 0
	}
	return n.text[len(n.text)-1]
}

// maxBraces bounds the nesting that is kept track of.
const maxBraces = 256

// step reads what starts at i and returns its length.
func (n *normaliser) step(i, end int) int {
	s := n.reply[i:end]
	switch s[0] {
	case '&':
		if size, text := entity(s); size > 0 {
			for _, r := range text {
				n.rune(i, r)
			}
			return size
		}
	case '\\':
		return n.latex(i, s)
	case '{':
		if strings.HasPrefix(s, "{,}") { // the group sign of LaTeX
			n.emit(i, ",")
			return 3
		}
		n.open(' ')
		if n.last() != '^' {
			n.emit(i, " ")
		}
		return 1
	case '}':
		n.emit(i, string(n.closing()))
		return 1
	case '*':
		if strings.HasPrefix(s, "**") {
			n.stars(i, s)
			return 2
		}
	case '\n':
		if n.bold {
			n.bold = false
			n.emit(i, string(rune(closeMark)))
		}
	}
	if s[0] < utf8.RuneSelf {
		n.rune(i, rune(s[0]))
		return 1
	}
	r, size := utf8.DecodeRuneInString(s)
	n.rune(i, r)
	return size
}

func (n *normaliser) open(closing byte) {
	if len(n.braces) < maxBraces {
		n.braces = append(n.braces, closing)
	}
}

func (n *normaliser) closing() byte {
	if len(n.braces) == 0 {
		return ' '
	}
	c := n.braces[len(n.braces)-1]
	n.braces = n.braces[:len(n.braces)-1]
	return c
}

// stars reads "**": a power between digits, else the start or end of bold print.
func (n *normaliser) stars(i int, s string) {
	switch {
	case isDigit(n.last()) && len(s) > 2 && isDigit(s[2]) && !n.bold:
		n.emit(i, "^")
	case n.bold || n.literal:
		n.emit(i, string(rune(closeMark)))
		n.bold = false
	default:
		n.emit(i, string(rune(openMark)))
		n.bold, n.differs = true, true
	}
}

// entity undoes a character reference of HTML at the start of s.
func entity(s string) (size int, text string) {
	const longest = 12
	semicolon := strings.IndexByte(s[:min(len(s), longest)], ';')
	if semicolon < 0 {
		return 0, ""
	}
	text = html.UnescapeString(s[:semicolon+1])
	if text == s[:semicolon+1] {
		return 0, ""
	}
	return semicolon + 1, text
}

// latex reads a command at the start of s.
func (n *normaliser) latex(i int, s string) int {
	if len(s) == 1 {
		n.emit(i, " ")
		return 1
	}
	switch c := s[1]; c {
	case '$', '%', '#', '&', '_', '"', '\'', '/':
		n.emit(i, string(rune(c)))
		return 2
	case '!':
		return 2
	case ',', ';', ':', '\\', '(', ')', '[', ']', ' ':
		n.emit(i, " ")
		return 2
	}
	const longest = 16
	size := 1
	for size < min(len(s), longest) && isLetter(s[size]) {
		size++
	}
	switch s[1:size] {
	case "boxed", "fbox":
		if strings.HasPrefix(s[size:], "{") {
			n.emit(i, string(rune(openMark)))
			n.open(closeMark)
			return size + 1
		}
	case "frac", "dfrac", "tfrac":
		if a, b, length := fraction(s[size:]); length > 0 {
			slash := fractionSlash
			n.differs = true
			if n.literal {
				slash = " "
			}
			n.emit(i, " "+a+slash+b)
			return size + length
		}
	case "times", "cdot":
		n.emit(i, "×")
		return size
	case "text", "textbf", "mathrm", "mathbf", "mathit", "left", "right", "displaystyle", "quad":
		n.emit(i, " ")
		return size
	}
	n.emit(i, " ")
	return 1
}

// fraction reads {a}{b} with digits only.
func fraction(s string) (a, b string, length int) {
	a, rest, ok := braced(s)
	if !ok {
		return "", "", 0
	}
	b, rest, ok = braced(rest)
	if !ok {
		return "", "", 0
	}
	return a, b, len(s) - len(rest)
}

func braced(s string) (digits, rest string, ok bool) {
	if !strings.HasPrefix(s, "{") {
		return "", s, false
	}
	end := 1
	for end < min(len(s), maxNumeral) && isDigit(s[end]) {
		end++
	}
	if end == 1 || end >= len(s) || s[end] != '}' {
		return "", s, false
	}
	return s[1:end], s[end+1:], true
}

// vulgar are the fraction characters, by their NFKC form.
var vulgar = map[rune]string{
	'½': "1/2", '⅓': "1/3", '⅔': "2/3", '¼': "1/4", '¾': "3/4", '⅕': "1/5", '⅖': "2/5", '⅗': "3/5", '⅘': "4/5",
	'⅙': "1/6", '⅚': "5/6", '⅐': "1/7", '⅛': "1/8", '⅜': "3/8", '⅝': "5/8", '⅞': "7/8", '⅑': "1/9", '⅒': "1/10",
}

var superscripts = map[rune]byte{
	'⁰': '0', '¹': '1', '²': '2', '³': '3', '⁴': '4', '⁵': '5', '⁶': '6', '⁷': '7', '⁸': '8', '⁹': '9', '⁻': '-', '⁺': '+',
}

// rune folds one character: NFKC as far as numbers, dates and hex need it, with
// one form for each minus, quote and blank.
func (n *normaliser) rune(i int, r rune) {
	switch {
	case r == '\r', isHidden(r):
	case r == '\n', r == '\t':
		n.emit(i, string(r))
	case r < ' ', r == 0x7f:
		n.emit(i, " ")
	case r < utf8.RuneSelf:
		n.emit(i, string(r))
	case unicode.Is(unicode.Zs, r):
		n.emit(i, " ")
	case strings.ContainsRune("−‐‑‒–﹣－", r):
		n.emit(i, "-")
	case r == '—', r == '―': // between clauses, never a sign
		n.emit(i, " - ")
	case strings.ContainsRune("‘’‛′ʼ", r):
		n.emit(i, "'")
	case strings.ContainsRune("“”„″«»", r):
		n.emit(i, `"`)
	case r == '。':
		n.emit(i, ".")
	case r == '、':
		n.emit(i, ",")
	case r == '✕', r == '⋅', r == '·':
		n.emit(i, "×")
	case r >= '！' && r <= '～': // full width
		n.emit(i, string(r-'！'+'!'))
	case superscripts[r] != 0:
		if c := n.last(); !n.superscript() || c == 0 {
			n.emit(i, "^")
		}
		n.emit(i, string(rune(superscripts[r])))
	case n.literal:
		n.emit(i, string(r))
	case vulgar[r] != "":
		n.differs = true
		n.emit(i, " "+strings.Replace(vulgar[r], "/", fractionSlash, 1))
	case r == '٫':
		n.differs = true
		n.emit(i, ".")
	case r == '٬':
		n.differs = true
		n.emit(i, ",")
	case unicode.Is(unicode.Nd, r):
		n.differs = true
		n.emit(i, string('0'+digitValue(r)))
	default:
		n.emit(i, string(r))
	}
}

// superscript reports whether the text ends in an exponent that more superscripts
// belong to.
func (n *normaliser) superscript() bool {
	tail := n.text[max(0, len(n.text)-8):]
	at := bytes.LastIndexByte(tail, '^')
	return at >= 0 && !slices.ContainsFunc(tail[at+1:], func(c byte) bool { return !isDigit(c) && c != '-' && c != '+' })
}

// isHidden reports whether r has no width or only sets direction.
func isHidden(r rune) bool {
	return r == 0xAD || r >= 0x200B && r <= 0x200F || r >= 0x202A && r <= 0x202E || r >= 0x2060 && r <= 0x206F || r == 0xFEFF
}

// digitValue is the value of a decimal digit of any script: in Unicode they stand
// in rows of ten.
func digitValue(r rune) rune {
	for _, row := range unicode.Nd.R16 {
		if r >= rune(row.Lo) && r <= rune(row.Hi) {
			return (r - rune(row.Lo)) % 10
		}
	}
	for _, row := range unicode.Nd.R32 {
		if r >= rune(row.Lo) && r <= rune(row.Hi) { //nolint:gosec // a rune
			return (r - rune(row.Lo)) % 10 //nolint:gosec // a rune
		}
	}
	return 0
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isDigit(c) || isLetter(c) }
