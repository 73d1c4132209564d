package task

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// A dateToken is a date as it is written. iso is empty where the year is missing
// or the order of day and month cannot be told.
type dateToken struct {
	start, end int
	iso        string
	written    bool // in ISO form or with the month as an English word
}

// monthNamed returns the month of an English name or its short form, or 0.
func monthNamed(name []byte) time.Month {
	var word folded
	switch string(word.fold(name)) {
	case "jan", "january":
		return time.January
	case "feb", "february":
		return time.February
	case "mar", "march":
		return time.March
	case "apr", "april":
		return time.April
	case "may":
		return time.May
	case "jun", "june":
		return time.June
	case "jul", "july":
		return time.July
	case "aug", "august":
		return time.August
	case "sep", "sept", "september":
		return time.September
	case "oct", "october":
		return time.October
	case "nov", "november":
		return time.November
	case "dec", "december":
		return time.December
	}
	return 0
}

// beforeDigit is how far before its first digit a date may start: a month and a gap.
const beforeDigit = len("september") + maxGap

// scanDates returns the dates of text in order. With basic set it takes eight
// digits such as 20260301 for one too.
func scanDates(text []byte, basic bool) []dateToken {
	var list []dateToken
	digit := -1
	for i := 0; i < len(text); {
		if digit < i {
			next := bytes.IndexAny(text[i:], "0123456789")
			if next < 0 {
				break
			}
			digit = i + next
			i = max(i, digit-beforeDigit)
		}
		if i > 0 && isAlnum(text[i-1]) || !isAlnum(text[i]) {
			i++
			continue
		}
		var d dateToken
		var ok bool
		if isDigit(text[i]) {
			d, ok = dateFromDigit(text, i, basic)
		} else {
			d, ok = dateFromMonth(text, i)
		}
		if !ok {
			for i < len(text) && isAlnum(text[i]) {
				i++
			}
			continue
		}
		list = append(list, d)
		i = d.end
	}
	return list
}

// digitsAt reads up to max digits at i that are not followed by another.
func digitsAt(text []byte, i, most int) (n, end int) {
	end = i
	for end < len(text) && end-i < most && isDigit(text[end]) {
		n = n*10 + int(text[end]-'0')
		end++
	}
	if end < len(text) && isDigit(text[end]) {
		return 0, i
	}
	return n, end
}

func isoOf(year, month, day int) (string, bool) {
	if month < 1 || month > 12 || day < 1 || day > 31 {
		return "", false
	}
	t := date(year, time.Month(month), day)
	return t.Format(isoDate), t.Day() == day
}

// dateFromDigit reads 2026-03-01, 2026/3/1, 25.03.2026, 20260301 and 1 March 2026.
func dateFromDigit(text []byte, i int, basic bool) (dateToken, bool) {
	a, end := digitsAt(text, i, 8)
	size := end - i
	if size == 8 && basic && (end == len(text) || !isAlnum(text[end])) {
		iso, ok := isoOf(a/10000, a/100%100, a%100)
		return dateToken{i, end, iso, false}, ok
	}
	if size == 0 || end >= len(text) {
		return dateToken{}, false
	}
	if sep := text[end]; sep == '-' || sep == '/' || sep == '.' {
		b, second := digitsAt(text, end+1, 2)
		if second > end+1 && second < len(text) && text[second] == sep {
			c, third := digitsAt(text, second+1, 4)
			if third > second+1 {
				return numericDate(text, i, size, [3]int{a, b, c}, third-second-1, third, sep)
			}
		}
	}
	if size > 2 {
		return dateToken{}, false
	}
	return dayFirst(text, i, a, end)
}

// numericDate makes a date of three numbers.
func numericDate(text []byte, start, firstSize int, n [3]int, lastSize, end int, sep byte) (dateToken, bool) {
	d := dateToken{start: start, end: end}
	var ok bool
	switch {
	case firstSize == 4 && lastSize <= 2:
		d.iso, ok = isoOf(n[0], n[1], n[2])
		d.written = sep == '-' && lastSize == 2
		d.end = timeOfDay(text, end)
	case firstSize <= 2 && lastSize == 4:
		ok = true
		switch {
		case n[0] == n[1] || n[0] > 12:
			d.iso, ok = isoOf(n[2], n[1], n[0])
		case n[1] > 12:
			d.iso, ok = isoOf(n[2], n[0], n[1])
		}
	case firstSize <= 2 && lastSize == 2 && sep != '.':
		_, ok = isoOf(2000+n[2], 1, n[0]) // a date, but who knows which
	}
	if d.end < len(text) && isAlnum(text[d.end]) {
		ok = false
	}
	return d, ok
}

// timeOfDay passes a time of RFC 3339 behind a date.
func timeOfDay(text []byte, i int) int {
	if i+3 > len(text) || text[i] != 'T' || !isDigit(text[i+1]) {
		return i
	}
	for i++; i < len(text) && (isDigit(text[i]) || bytes.IndexByte([]byte(":.+-Z"), text[i]) >= 0); i++ {
		if text[i] == 'Z' {
			return i + 1
		}
	}
	return i
}

// dayFirst reads the rest of "1st of March, 2026" or "01-Mar-26" behind the day.
func dayFirst(text []byte, start, day, i int) (dateToken, bool) {
	i = ordinal(text, i)
	i = gap(text, i)
	if bytes.HasPrefix(text[i:], []byte("of ")) {
		i += len("of ")
	}
	month, end := monthAt(text, i)
	if month == 0 || day < 1 || day > 31 {
		return dateToken{}, false
	}
	d := dateToken{start: start, end: end, written: true}
	year, yearEnd, ok := yearAt(text, end)
	if ok {
		d.end = yearEnd
		d.iso, _ = isoOf(year, int(month), day)
	}
	return d, true
}

// dateFromMonth reads "March 1st, 2026".
func dateFromMonth(text []byte, start int) (dateToken, bool) {
	i := start
	for i < len(text) && isLetter(text[i]) {
		i++
	}
	name := text[start:i]
	i = gap(text, i)
	if i == len(text) || !isDigit(text[i]) { // which tells most words, for less than their name does
		return dateToken{}, false
	}
	month := monthNamed(name)
	if month == 0 {
		return dateToken{}, false
	}
	day, end := digitsAt(text, i, 2)
	if end == i || day < 1 || day > 31 {
		return dateToken{}, false
	}
	end = ordinal(text, end)
	if end < len(text) && isAlnum(text[end]) {
		return dateToken{}, false
	}
	d := dateToken{start: start, end: end, written: true}
	if year, yearEnd, ok := yearAt(text, end); ok {
		d.end = yearEnd
		d.iso, _ = isoOf(year, int(month), day)
	}
	return d, true
}

func ordinal(text []byte, i int) int {
	if i+2 > len(text) {
		return i
	}
	var sign folded
	switch string(sign.fold(text[i : i+2])) {
	case "st", "nd", "rd", "th":
		return i + 2
	}
	return i
}

// maxGap bounds what stands between the parts of a written date.
const maxGap = 3

// gap passes what stands between the parts of a written date.
func gap(text []byte, i int) int {
	for end := min(len(text), i+maxGap); i < end; i++ {
		switch text[i] {
		case ' ', '-', ',', '.', '/':
		default:
			return i
		}
	}
	return i
}

func monthAt(text []byte, i int) (time.Month, int) {
	end := i
	for end < len(text) && isLetter(text[end]) {
		end++
	}
	return monthNamed(text[i:end]), end
}

// yearAt reads a year of four digits, or of two behind a hyphen.
func yearAt(text []byte, i int) (year, end int, ok bool) {
	j := gap(text, i)
	year, end = digitsAt(text, j, 4)
	switch {
	case end < len(text) && isAlnum(text[end]):
		return 0, i, false
	case end-j == 4 && j > i:
		return year, end, true
	case end-j == 2 && j == i+1 && text[i] == '-':
		return 2000 + year, end, true
	}
	return 0, i, false
}

// dateValues returns the dates of text but for those restated from the prompt.
func dateValues(text, prompt []byte, want string) []value {
	restated := make(map[string]int)
	for _, d := range scanDates(prompt, true) {
		if d.iso != want {
			restated[d.iso]++
		}
	}
	var values []value
	for _, d := range scanDates(text, true) {
		if d.iso != "" && restated[d.iso] > 0 {
			restated[d.iso]--
			continue
		}
		values = append(values, value{d.start, d.end, d.iso == want})
	}
	return values
}

// A weekdayToken is the name of a day.
type weekdayToken struct {
	start, end int
	name       string // in full
}

// dayNamed returns the day of an English name or one of its short forms, or "".
func dayNamed(name []byte) string {
	var word folded
	switch string(word.fold(name)) {
	case "sun", "sunday":
		return "Sunday"
	case "mon", "monday":
		return "Monday"
	case "tue", "tues", "tuesday":
		return "Tuesday"
	case "wed", "wednesday":
		return "Wednesday"
	case "thu", "thur", "thurs", "thursday":
		return "Thursday"
	case "fri", "friday":
		return "Friday"
	case "sat", "saturday":
		return "Saturday"
	}
	return ""
}

// scanWeekdays returns the English names of days. Short ones need a capital.
func scanWeekdays(text []byte) []weekdayToken {
	var list []weekdayToken
	for i := 0; i < len(text); i++ {
		if !isLetter(text[i]) || i > 0 && isAlnum(text[i-1]) {
			continue
		}
		start := i
		for i < len(text) && isAlnum(text[i]) {
			i++
		}
		name := dayNamed(text[start:i])
		if name != "" && (i-start > len("thurs") || text[start] < 'a') {
			list = append(list, weekdayToken{start, i, name})
		}
	}
	return list
}

// reckoned are the words behind which a day is one to count from.
var reckoned = makeSet("after before following")

// weekdayValues returns the days that are stated, not those that a stated one is
// reckoned from or told apart from.
func weekdayValues(text []byte, want string) []value {
	var values []value
	for _, w := range scanWeekdays(text) {
		v := value{w.start, w.end, w.name == want}
		var room [16][]byte
		before := words(room[:0], text[max(0, w.start-24):w.start])
		if n := len(before); n > 0 && reckoned[string(before[n-1])] {
			continue
		}
		if !negated(text, v) {
			values = append(values, v)
		}
	}
	return values
}

// A run is text of one alphabet between other characters.
type run struct{ start, end int }

// block is what a row of runs of the same length, the last one perhaps shorter,
// spells when joined.
func block(text []byte, runs []run) []byte {
	var b []byte
	for _, r := range runs {
		b = append(b, text[r.start:r.end]...)
	}
	return b
}

// hexValues returns the hex strings of text. A value is right if the whole of it
// spells want; groups of one size that only blanks, colons or backticks part are
// one value.
func hexValues(text []byte, want string, equal func(a, b string) bool) []value {
	var values []value
	runs := hexRuns(text)
	for i := 0; i < len(runs); {
		size := runs[i].end - runs[i].start
		total, j := size, i+1
		for j < len(runs) && size != len(want) && runs[j].end-runs[j].start == size && joins(text[runs[j-1].end:runs[j].start], size) {
			total += size
			j++
		}
		if j < len(runs) && size != len(want) {
			if rest := runs[j].end - runs[j].start; rest < size && total+rest == len(want) && joins(text[runs[j-1].end:runs[j].start], size) {
				total += rest
				j++
			}
		}
		if total >= 8 && slices.ContainsFunc(text[runs[i].start:runs[j-1].end], isDigit) {
			right := total == len(want) && equal(string(block(text, runs[i:j])), want)
			start := runs[i].start
			if start >= 2 && text[start-1]|0x20 == 'x' && text[start-2] == '0' {
				start -= 2
			}
			values = append(values, value{start, runs[j-1].end, right})
		}
		i = j
	}
	return values
}

// withoutRestated leaves out one copy of each value that stands in the prompt
// digit for digit: an address to be written in another case is no answer.
func withoutRestated(text []byte, list []value, prompt string) []value {
	if prompt == "" {
		return list
	}
	restated := make(map[string]bool)
	return slices.DeleteFunc(list, func(v value) bool {
		written := string(text[v.start:v.end])
		if v.right || restated[written] || !strings.Contains(prompt, written) {
			return false
		}
		restated[written] = true
		return true
	})
}

// joins reports whether gap may part two groups of hex digits of the given size.
// Only long groups go on behind the end of a line.
func joins(gap []byte, size int) bool {
	const longGroup = 16
	return len(gap) > 0 && len(gap) <= 8 && len(bytes.Trim(gap, " \t:`\n")) == 0 &&
		(size >= longGroup || bytes.IndexByte(gap, '\n') < 0)
}

// hexRuns returns the words of two and more characters that are hex digits only,
// without 0x.
func hexRuns(text []byte) []run {
	var runs []run
	for i := 0; i < len(text); {
		if !isAlnum(text[i]) && text[i] != '_' {
			i++
			continue
		}
		start := i
		if text[i] == '0' && i+1 < len(text) && text[i+1]|0x20 == 'x' {
			start += 2
			i += 2
		}
		pure := true
		for i < len(text) && (isAlnum(text[i]) || text[i] == '_') {
			pure = pure && (isDigit(text[i]) || text[i]|0x20 >= 'a' && text[i]|0x20 <= 'f')
			i++
		}
		if pure && i-start >= 2 {
			runs = append(runs, run{start, i})
		}
	}
	return runs
}

// base64Values returns the words of text that are or look like Base64. Missing
// padding and lines of one length are forgiven, another alphabet is not.
func base64Values(text []byte, want string) []value {
	var values []value
	runs := base64Runs(text)
	for i := 0; i < len(runs); {
		size := runs[i].end - runs[i].start
		j, total := i+1, size
		for j < len(runs) && total < len(want) && wraps(text[runs[j-1].end:runs[j].start]) {
			length := runs[j].end - runs[j].start
			total += length
			j++
			if length != size {
				break
			}
		}
		if j > i+1 && sameBase64(block(text, runs[i:j]), want) {
			values = append(values, value{runs[i].start, runs[j-1].end, true})
			i = j
			continue
		}
		word := text[runs[i].start:runs[i].end]
		right := sameBase64(word, want)
		if right || looksEncoded(word) {
			values = append(values, value{runs[i].start, runs[i].end, right})
		}
		i++
	}
	return values
}

// wraps reports whether gap is a line break and blanks.
func wraps(gap []byte) bool {
	return len(gap) <= 8 && bytes.IndexByte(gap, '\n') >= 0 && len(bytes.TrimSpace(gap)) == 0
}

func sameBase64(got []byte, want string) bool {
	return string(got) == want || string(got) == strings.TrimRight(want, "=")
}

// looksEncoded tells Base64 from words.
func looksEncoded(word []byte) bool {
	const capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if len(word) < 8 {
		return false
	}
	capital := bytes.IndexAny(word[1:], capitals)
	return bytes.HasSuffix(word, []byte("=")) || capital >= 0 && bytes.ContainsAny(word[1:], "0123456789+") ||
		capital > 0 && !bytes.ContainsAny(word, "-/_") && bytes.ContainsAny(word, "abcdefghijklmnopqrstuvwxyz")
}

// base64Runs returns the runs of both alphabets with their padding.
func base64Runs(text []byte) []run {
	runs := make([]run, 0, len(text)/8+1)
	in := func(c byte) bool { return isAlnum(c) || c == '+' || c == '/' || c == '-' || c == '_' }
	for i := 0; i < len(text); {
		if !in(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && (in(text[i]) || text[i] == '=') {
			i++
		}
		runs = append(runs, run{start, i})
	}
	return runs
}

// tokenValues returns where text holds want as a whole word, whatever its case.
func tokenValues(text []byte, want string) []value {
	var values []value
	folded, needle := bytes.ToLower(text), bytes.ToLower([]byte(want))
	if len(folded) != len(text) { // a letter that changes its length with its case
		return nil
	}
	for i := 0; ; {
		at := bytes.Index(folded[i:], needle)
		if at < 0 {
			return values
		}
		start, end := i+at, i+at+len(needle)
		whole := (start == 0 || !isAlnum(text[start-1])) && (end == len(text) || !isAlnum(text[end]))
		if whole {
			values = append(values, value{start, end, true})
		}
		i = end
	}
}
