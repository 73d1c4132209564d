package task

import (
	"bytes"
	"math/big"
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
	readings   []reading // none for what is too long to be read
	exponent   int
	divisor    string // of a fraction
	glued      bool   // to letters that are no unit
}

type reading struct{ whole, fraction string }

// rat returns the value of one reading.
func (n *numeral) rat(r reading) *big.Rat {
	s := r.whole + "." + r.fraction
	if r.whole == "" {
		s = "0" + s
	}
	v, ok := new(big.Rat).SetString(strings.TrimSuffix(s, "."))
	if !ok {
		return new(big.Rat)
	}
	scale := power10(max(n.exponent, -n.exponent))
	if n.exponent < 0 {
		scale.Inv(scale)
	}
	v.Mul(v, scale)
	if n.divisor != "" {
		if d, ok := new(big.Rat).SetString(n.divisor); ok && d.Sign() != 0 {
			v.Quo(v, d)
		}
	}
	if n.negative {
		v.Neg(v)
	}
	return v
}

// within reports whether a reading of n is at most margin from exact.
func (n *numeral) within(exact, margin *big.Rat) bool {
	return slices.ContainsFunc(n.readings, func(r reading) bool {
		return within(n.rat(r), exact, margin, 1)
	})
}

// key writes a reading in the one form that equal numbers share, if they have
// neither exponent nor divisor.
func (n *numeral) key(r reading) string {
	key := strings.TrimLeft(r.whole, "0")
	if fraction := strings.TrimRight(r.fraction, "0"); fraction != "" {
		key += "." + fraction
	}
	if n.negative && key != "" {
		key = "-" + key
	}
	return key
}

// readNumeral reads a number that starts at i, at a digit or at a point before
// one. It returns where the token ends in any case.
func readNumeral(text []byte, i int) numeral {
	n := numeral{start: i}
	groups, separators, end := readGroups(text, i)
	n.readings, n.end = readings(groups, separators, end)
	if rest := text[n.end:]; bytes.HasPrefix(rest, []byte(fractionSlash)) && len(separators) == 0 {
		n.readDivisor(text)
	}
	n.readExponent(text)
	if n.end-n.start > maxNumeral || n.exponent > maxExponent || n.exponent < -maxExponent {
		n.readings = nil
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
// a separator too many.
func readGroups(text []byte, i int) (groups []group, separators []byte, end int) {
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

// readings makes sense of groups: all are taken if they can be, else the longest
// head that is a number in itself.
func readings(groups []group, separators []byte, end int) ([]reading, int) {
	if len(groups) == 1 {
		return []reading{{whole: string(groups[0].digits)}}, end
	}
	last := len(groups) - 1
	tail := string(groups[last].digits)
	sep := separators[0]
	switch {
	case len(separators) > last:
	case mixed(separators):
		if d := separators[last-1]; (d == '.' || d == ',') && grouped(groups[:last]) {
			return []reading{{join(groups[:last]), tail}}, end
		}
	case last == 1 && (sep == '.' || sep == ','):
		decimal := reading{string(groups[0].digits), tail}
		if grouped(groups) && groups[0].digits[0] != '0' {
			return []reading{{whole: join(groups)}, decimal}, end
		}
		return []reading{decimal}, end
	case grouped(groups):
		return []reading{{whole: join(groups)}}, end
	}
	// 1,2,3 is a run of numbers, 3.5,4.5 two of them, and 1.2.3 a version.
	if len(separators) > 1 && separators[0] == '.' && separators[1] == '.' {
		return nil, end
	}
	if sep == '.' {
		return []reading{{string(groups[0].digits), string(groups[1].digits)}}, groups[1].end
	}
	return []reading{{whole: string(groups[0].digits)}}, groups[0].end
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

func join(groups []group) string {
	var b []byte
	for _, g := range groups {
		b = append(b, g.digits...)
	}
	return string(b)
}

func (n *numeral) readDivisor(text []byte) {
	from := n.end + len(fractionSlash)
	to := from
	for to < len(text) && isDigit(text[to]) {
		to++
	}
	if to > from && to-from < maxNumeral {
		n.divisor, n.end = string(text[from:to]), to
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

// suffix returns the letters that begin text.
func suffix(text []byte) string {
	i := 0
	for i < len(text) && i < 2*maxNumeral {
		r, size := utf8.DecodeRune(text[i:])
		if !glues(r) {
			break
		}
		i += size
	}
	return strings.ToLower(string(text[:i]))
}

// scanNumerals calls yield for each number of text that stands by itself. skip, if
// not nil, is asked at each place whether something else begins there, and returns
// where that ends.
func scanNumerals(text []byte, loose bool, skip func(i int) int, yield func(numeral) bool) {
	for i := 0; i < len(text); {
		if skip != nil {
			if end := skip(i); end > i {
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
		letters := suffix(text[n.end:])
		if letters != "" && !suffixes[letters] {
			n.glued = true
		}
		n.glued = n.glued || !freestanding(text, i)
		i = n.end
		if n.glued && !loose {
			i = endOfName(text, i)
			continue
		}
		if !yield(n) {
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

// plainNumbers returns the first twelve numbers of text, wherever they stand.
func plainNumbers(text []byte) []numeral {
	var list []numeral
	scanNumerals(text, true, nil, func(n numeral) bool {
		list = append(list, n)
		return len(list) < maxValues
	})
	return list
}

// numberValues returns the numbers of text that may be an answer, not judged yet.
func numberValues(text, prompt []byte) []value {
	restated := numbersOf(prompt)
	mask := newMask(text)
	var list []value
	scanNumerals(text, false, mask.skip, func(n numeral) bool {
		if !restated.take(n) {
			list = append(list, value{start: n.start, end: n.end})
		}
		return true
	})
	return list
}

// rightNumber reports whether the number at v is at most margin from exact. If it
// is directed, words next to it may give it the sign of a drop.
func rightNumber(text []byte, v value, exact, margin *big.Rat, directed bool) bool {
	first := v.start + max(0, bytes.IndexAny(text[v.start:v.end], ".0123456789"))
	n := readNumeral(text, first)
	n.negative = first > v.start
	if directed && !n.negative && falls(text, n) {
		n.negative = true
	}
	return n.within(exact, margin)
}

// counts says how often each number of a prompt may be restated. Both readings
// of a number share a count.
type counts map[string]*int

func numbersOf(prompt []byte) counts {
	c := make(counts)
	mask := newMask(prompt)
	mask.labels = false
	scanNumerals(prompt, false, mask.skip, func(n numeral) bool {
		var shared *int
		for _, r := range n.readings {
			if p := c[n.key(r)]; p != nil {
				shared = p
			}
		}
		if shared == nil {
			shared = new(int)
		}
		*shared++
		for _, r := range n.readings {
			c[n.key(r)] = shared
		}
		return true
	})
	return c
}

// take uses up one copy of n, if there is one.
func (c counts) take(n numeral) bool {
	if n.exponent != 0 || n.divisor != "" {
		return false
	}
	for _, r := range n.readings {
		if left := c[n.key(r)]; left != nil && *left > 0 {
			*left--
			return true
		}
	}
	return false
}

var (
	fallingBefore = makeSet("decrease decreased decreases drop dropped drops fell fall decline declined reduction reduced down lower")
	fallingAfter  = makeSet("decrease drop decline reduction lower down less fall")
	percentWords  = makeSet("percent per cent pct a points percentage")
)

// falls reports whether the words right around a number say that it is a drop: a
// decrease of 10%, 10 percent lower.
func falls(text []byte, n numeral) bool {
	before := words(text[max(0, n.start-32):n.start])
	for len(before) > 0 {
		w := before[len(before)-1]
		before = before[:len(before)-1]
		if fallingBefore[w] {
			return true
		}
		if w != "of" && w != "by" && w != "about" && w != "approximately" && w != "exactly" {
			break
		}
	}
	for _, w := range words(text[n.end:min(len(text), n.end+32)]) {
		if !percentWords[w] {
			return fallingAfter[w]
		}
	}
	return false
}

// words returns the words of text in lower case, and each end of a sentence or
// clause as a word of its own.
func words(text []byte) []string {
	var list []string
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if unicode.IsLetter(r) || r == '\'' {
			from := i
			for i < len(text) && (unicode.IsLetter(r) || r == '\'') {
				i += size
				r, size = utf8.DecodeRune(text[i:])
			}
			list = append(list, strings.ToLower(string(text[from:i])))
			continue
		}
		if strings.ContainsRune(".,:;!?\n()", r) || isDigit(text[i]) {
			list = append(list, string(r))
		}
		i += size
	}
	return list
}
