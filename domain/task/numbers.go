package task

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds on what is read as a number: what exceeds them cannot be right, and
// turning it into a rational would cost memory (1e999999999).
const (
	maxNumeral  = 128
	maxExponent = 80
)

// A numeral is a number as it is written. One separator before three digits has
// two readings, 1,234 being 1234 or 1.234.
type numeral struct {
	start, end int
	negative   bool
	readings   readings
	exponent   int
	divisor    []byte // of a fraction
}

// readings are the one or two ways to read a number, none for what is too long.
type readings struct {
	list [2]reading
	n    int
}

func (r *readings) all() []reading { return r.list[:r.n] }

func readAs(list ...reading) readings {
	var r readings
	r.n = copy(r.list[:], list)
	return r
}

// A reading says which parts of the text are the digits before and behind the
// point. Separators stand between those before it.
type reading struct{ whole, fraction []byte }

// ratio returns the value of one reading.
func (n *numeral) ratio(r reading) ratio {
	var digits [2 * maxNumeral]byte
	value := wholeNumber(append(appendDigits(digits[:0], r.whole), r.fraction...))
	if e := n.exponent - len(r.fraction); e < 0 {
		value = value.over(power10(-e))
	} else if e > 0 {
		value = value.times(power10(e))
	}
	if d := wholeNumber(n.divisor); d.sign() != 0 {
		value = value.over(d)
	}
	if n.negative {
		value = value.negative()
	}
	return value
}

// wholeNumber returns the number that decimal digits spell, 0 for none.
func wholeNumber(digits []byte) ratio {
	if len(digits) < len(powers) {
		n := int64(0)
		for _, c := range digits {
			n = 10*n + int64(c-'0')
		}
		return ratio{num: n, den: 1}
	}
	q := new(quotient)
	q.num.SetString(string(digits), 10)
	q.den.SetInt64(1)
	return ratio{wide: q}
}

// appendDigits appends the digits of text.
func appendDigits(b, text []byte) []byte {
	for _, c := range text {
		if isDigit(c) {
			b = append(b, c)
		}
	}
	return b
}

// hits reports whether a reading of n is near enough to what is right.
func (n *numeral) hits(right *aim) bool {
	for _, r := range n.readings.all() {
		if right.near(n.ratio(r), 1) {
			return true
		}
	}
	return false
}

// key writes a reading into b, in the one form that equal numbers share if they
// have neither exponent nor divisor.
func (n *numeral) key(b []byte, r reading) []byte {
	b = b[:0]
	if n.negative {
		b = append(b, '-')
	}
	sign := len(b)
	for _, c := range r.whole {
		if isDigit(c) && (c != '0' || len(b) > sign) {
			b = append(b, c)
		}
	}
	if fraction := bytes.TrimRight(r.fraction, "0"); len(fraction) > 0 {
		b = append(append(b, '.'), fraction...)
	}
	if len(b) == sign { // 0 and -0
		return b[:0]
	}
	return b
}

// readNumeral reads a number that starts at i, at a digit or at a point before
// one. It returns where the token ends in any case.
func readNumeral(text []byte, i int) numeral {
	n := numeral{start: i}
	var roomForGroups [8]group // more are rare
	var roomForSeparators [8]byte
	groups, separators, end := readGroups(roomForGroups[:0], roomForSeparators[:0], text, i)
	n.readings, n.end = makeSense(text, groups, separators, end)
	if rest := text[n.end:]; bytes.HasPrefix(rest, []byte(fractionSlash)) && len(separators) == 0 {
		n.readDivisor(text)
	}
	n.readExponent(text)
	if n.end-n.start > maxNumeral || n.exponent > maxExponent || n.exponent < -maxExponent {
		n.readings = readings{}
	}
	return n
}

type group struct {
	digits []byte
	end    int
}

// maxGroups bounds the groups of one number.
const maxGroups = 32

// readGroups reads digits and single separators. A blank, an apostrophe and an
// underscore only part groups of three; the first separator of another sort than
// those before is the last. A row of groups that are none of thousands ends with
// a separator too many. What is read is appended to the lists that are handed in.
func readGroups(groups []group, separators, text []byte, i int) ([]group, []byte, int) {
	for {
		from := i
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		groups = append(groups, group{text[from:i], i})
		if i+1 >= len(text) || len(groups) == maxGroups || !isDigit(text[i+1]) || mixed(separators) {
			return groups, separators, i
		}
		sep := text[i]
		if n := len(groups); n > 1 && sep == separators[0] && (i-from < 2 || i-from > 3) {
			return groups, append(separators, sep), i // no group of thousands, so this is a row of something
		}
		switch sep {
		case '.', ',':
		case ' ', '\'', '_':
			three := i+4 <= len(text) && isDigit(text[i+2]) && isDigit(text[i+3]) && (i+4 == len(text) || !isDigit(text[i+4]))
			same := len(separators) == 0 || separators[0] == sep
			if !three || !same || len(groups[0].digits) > 3 || len(groups[0].digits) == 0 {
				return groups, separators, i
			}
		default:
			return groups, separators, i
		}
		separators = append(separators, sep)
		i++
	}
}

func mixed(separators []byte) bool {
	n := len(separators)
	return n > 1 && separators[n-1] != separators[n-2]
}

// makeSense reads groups as numbers: all are taken if they can be, else the longest
// head that is a number in itself. It returns where that ends.
func makeSense(text []byte, groups []group, separators []byte, end int) (readings, int) {
	head := groups[0].digits
	if len(groups) == 1 {
		return readAs(reading{whole: head}), end
	}
	last := len(groups) - 1
	tail := groups[last].digits
	sep := separators[0]
	switch {
	case len(separators) > last:
	case mixed(separators):
		if d := separators[last-1]; (d == '.' || d == ',') && grouped(groups[:last]) {
			return readAs(reading{spanned(text, groups[:last]), tail}), end
		}
	case last == 1 && (sep == '.' || sep == ','):
		decimal := reading{head, tail}
		if grouped(groups) && head[0] != '0' {
			return readAs(reading{whole: spanned(text, groups)}, decimal), end
		}
		return readAs(decimal), end
	case grouped(groups):
		return readAs(reading{whole: spanned(text, groups)}), end
	}
	// 1,2,3 is a run of numbers, 3.5,4.5 two of them, and 1.2.3 a version.
	if len(separators) > 1 && separators[0] == '.' && separators[1] == '.' {
		return readings{}, end
	}
	if sep == '.' {
		return readAs(reading{head, groups[1].digits}), groups[1].end
	}
	return readAs(reading{whole: head}), groups[0].end
}

// grouped reports whether groups are those of thousands, 1 234 567, or of the
// Indian system, 12 34 567.
func grouped(groups []group) bool {
	last := len(groups) - 1
	if last < 1 {
		return last == 0
	}
	if n := len(groups[0].digits); n < 1 || n > 3 || len(groups[last].digits) != 3 {
		return false
	}
	size := len(groups[1].digits)
	for _, g := range groups[1:last] {
		if len(g.digits) != size || size < 2 || size > 3 {
			return false
		}
	}
	return last == 1 || size == 3 || len(groups[0].digits) < 3
}

// spanned returns the text of groups with what stands between them.
func spanned(text []byte, groups []group) []byte {
	first := groups[0]
	return text[first.end-len(first.digits) : groups[len(groups)-1].end]
}

func (n *numeral) readDivisor(text []byte) {
	from := n.end + len(fractionSlash)
	to := from
	for to < len(text) && isDigit(text[to]) {
		to++
	}
	if to > from && to-from < maxNumeral {
		n.divisor, n.end = text[from:to], to
	}
}

// readExponent reads e3, E+3, ×10^3 and x 10^-3.
func (n *numeral) readExponent(text []byte) {
	i := n.end
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
	} else {
		for i < len(text) && text[i] == ' ' && i < n.end+2 {
			i++
		}
		switch {
		case bytes.HasPrefix(text[i:], []byte("×")):
			i += len("×")
		case i < len(text) && (text[i] == 'x' || text[i] == '*'):
			i++
		default:
			return
		}
		for i < len(text) && text[i] == ' ' {
			i++
		}
		if !bytes.HasPrefix(text[i:], []byte("10^")) {
			return
		}
		i += len("10^")
	}
	from := i
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		i++
	}
	digits := i
	for i < len(text) && isDigit(text[i]) {
		i++
	}
	if i == digits || i < len(text) && isLetter(text[i]) {
		return
	}
	n.end = i
	e, err := strconv.Atoi(string(text[from:min(i, from+6)]))
	if err != nil || i-from > 6 {
		e = maxExponent + 1
	}
	n.exponent = e
}

// suffixes are the letters that may stand right behind a number: units,
// currencies, and the ordinal signs that are taken for degrees.
var suffixes = makeSet("km mi m cm mm in ft lb lbs kg g oz l ml gal floz c f k kmh kph mph ha ac sqft sqm mb mib nmi usd eur gbp chf jpy " +
	"inr wei gwei eth d day days h º ª pct percent points pp miles meters feet inches pounds liters litres grams ounces acres hectares")

// prefixes are the letters that may stand right before a number.
var prefixes = makeSet("usd eur gbp chf jpy inr cad aud rs us")

func makeSet(words string) map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// glues reports whether a letter next to digits makes them part of a name. The
// scripts that part no words do not.
func glues(r rune) bool { return unicode.IsLetter(r) && r < 0x0600 }

// glued reports whether the letters that begin text are no unit.
func glued(text []byte) bool {
	i := 0
	for i < len(text) && i < 2*maxNumeral {
		r, size := utf8.DecodeRune(text[i:])
		if !glues(r) {
			break
		}
		i += size
	}
	return i > 0 && !suffixes[strings.ToLower(string(text[:i]))]
}

// scanNumerals calls yield for each number of text that stands by itself, but for
// what the mask hides. Without a mask it takes those that are glued to a name too.
func scanNumerals(text []byte, m *mask, yield func(*numeral) bool) {
	for i := 0; i < len(text); {
		if m != nil {
			if end := m.skip(i); end > i {
				i = end
				continue
			}
		}
		c := text[i]
		if !isDigit(c) && (c != '.' || i+1 >= len(text) || !isDigit(text[i+1]) || i > 0 && (isAlnum(text[i-1]) || text[i-1] == ')')) {
			i++
			continue
		}
		n := readNumeral(text, i)
		n.sign(text)
		named := m != nil && (glued(text[n.end:]) || !freestanding(text, i))
		i = n.end
		if named {
			i = endOfName(text, i)
			continue
		}
		if !yield(&n) {
			return
		}
	}
}

// endOfName returns where a name that goes on at i ends: letters and digits, and
// points before digits.
func endOfName(text []byte, i int) int {
	for i < len(text) && (isAlnum(text[i]) || text[i] == '.' && i+1 < len(text) && isDigit(text[i+1])) {
		i++
	}
	return i
}

// freestanding reports whether what stands before i leaves a number there its own.
func freestanding(text []byte, i int) bool {
	before := text[max(0, i-2*utf8.UTFMax):i]
	before = bytes.TrimSuffix(before, []byte("-"))
	before = bytes.TrimSuffix(before, []byte("_"))
	r, _ := utf8.DecodeLastRune(before)
	if r == utf8.RuneError || !glues(r) {
		return true
	}
	start := len(before)
	for start > 0 && isLetter(before[start-1]) {
		start--
	}
	return len(before) == min(i, 2*utf8.UTFMax) && prefixes[strings.ToLower(string(before[start:]))]
}

// sign takes in a minus before the number or before its currency. A minus behind
// a digit or a bracket is a subtraction, behind a letter a hyphen.
func (n *numeral) sign(text []byte) {
	before := text[max(0, n.start-2*utf8.UTFMax):n.start]
	if r, size := utf8.DecodeLastRune(before); unicode.Is(unicode.Sc, r) {
		before = before[:len(before)-size]
	}
	if len(before) == 0 || before[len(before)-1] != '-' {
		return
	}
	r, _ := utf8.DecodeLastRune(before[:len(before)-1])
	n.negative = !unicode.IsDigit(r) && !unicode.IsLetter(r) && r != ')' && r != ']' && r != '-'
	if n.negative {
		n.start -= 1 + (min(n.start, 2*utf8.UTFMax) - len(before))
	}
}

// plainlyRight reports whether one of the first twelve numbers of text, wherever
// they stand, is right.
func plainlyRight(text []byte, right *aim) bool {
	seen, found := 0, false
	scanNumerals(text, nil, func(n *numeral) bool {
		seen++
		found = n.hits(right)
		return !found && seen < maxValues
	})
	return found
}

// numberValues returns the numbers of text that may be an answer, not judged yet.
func numberValues(text, prompt []byte) []value {
	restated := numbersOf(prompt)
	var list []value
	scanNumerals(text, newMask(text), func(n *numeral) bool {
		if !restated.take(n) {
			list = append(list, value{start: n.start, end: n.end})
		}
		return true
	})
	return list
}

// rightNumber reports whether the number at v is right. If it
// is directed, words next to it may give it the sign of a drop.
func rightNumber(text []byte, v value, right *aim, directed bool) bool {
	first := v.start + max(0, bytes.IndexAny(text[v.start:v.end], ".0123456789"))
	n := readNumeral(text, first)
	n.negative = first > v.start
	if directed && !n.negative && falls(text, &n) {
		n.negative = true
	}
	return n.hits(right)
}

// counts says how often each number of a prompt may be restated. Both readings
// of a number share a count.
type counts map[string]*int

func numbersOf(prompt []byte) counts {
	c := make(counts)
	mask := newMask(prompt)
	mask.labels = false
	var key [maxNumeral]byte
	scanNumerals(prompt, mask, func(n *numeral) bool {
		var shared *int
		for _, r := range n.readings.all() {
			if p := c[string(n.key(key[:], r))]; p != nil {
				shared = p
			}
		}
		if shared == nil {
			shared = new(int)
		}
		*shared++
		for _, r := range n.readings.all() {
			c[string(n.key(key[:], r))] = shared
		}
		return true
	})
	return c
}

// take uses up one copy of n, if there is one.
func (c counts) take(n *numeral) bool {
	if n.exponent != 0 || len(n.divisor) > 0 {
		return false
	}
	var key [maxNumeral]byte
	for _, r := range n.readings.all() {
		if left := c[string(n.key(key[:], r))]; left != nil && *left > 0 {
			*left--
			return true
		}
	}
	return false
}

var (
	fallingBefore = makeSet("decrease decreased decreases drop dropped drops fell fall decline declined reduction reduced down lower")
	fallingAfter  = makeSet("decrease drop decline reduction lower down less fall")
	fillWords     = makeSet("of by about approximately exactly")
	percentWords  = makeSet("percent per cent pct a points percentage")
)

// falls reports whether the words right around a number say that it is a drop: a
// decrease of 10%, 10 percent lower.
func falls(text []byte, n *numeral) bool {
	var room [16][]byte
	for _, w := range slices.Backward(words(room[:0], text[max(0, n.start-32):n.start])) {
		if fallingBefore[string(w)] {
			return true
		}
		if !fillWords[string(w)] {
			break
		}
	}
	for _, w := range words(room[:0], text[n.end:min(len(text), n.end+32)]) {
		if !percentWords[string(w)] {
			return fallingAfter[string(w)]
		}
	}
	return false
}

// words appends to list the words of text in lower case, and each end of a sentence
// or clause as a word of its own.
func words(list [][]byte, text []byte) [][]byte {
	for i := 0; i < len(text); {
		size, capitals := wordAt(text[i:])
		switch {
		case size > 0 && capitals:
			list = append(list, bytes.ToLower(text[i:i+size]))
		case size > 0:
			list = append(list, text[i:i+size])
		case isDigit(text[i]) || bytes.IndexByte([]byte(".,:;!?\n()"), text[i]) >= 0:
			size = 1
			list = append(list, text[i:i+size])
		default:
			_, size = utf8.DecodeRune(text[i:])
		}
		i += size
	}
	return list
}

// wordAt returns the size of the word that begins text, and whether it may hold
// capitals.
func wordAt(text []byte) (size int, capitals bool) {
	for size < len(text) {
		r, n := rune(text[size]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[size:])
		}
		if r != '\'' && !unicode.IsLetter(r) {
			break
		}
		capitals = capitals || r >= 'A' && r <= 'Z' || r >= utf8.RuneSelf
		size += n
	}
	return size, capitals
}
