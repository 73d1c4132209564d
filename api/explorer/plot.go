package explorer

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/finding"
	"github.com/karatum/mystery/domain/shop"
	"github.com/karatum/mystery/domain/stats"
	"github.com/karatum/mystery/domain/task"
	"github.com/karatum/mystery/projections"
)

// Drawings are SVG with classes in place of colours, so that they follow the scheme of
// the page, and with no style of their own, which the policy forbids. Each has its
// numbers in its description and in a table beneath. Text shrinks with a drawing, so
// there is one for wide screens and one for narrow ones, of which the style sheet shows
// one.

func escaped(text string) string { return template.HTMLEscapeString(text) }

// A drawing is the two drawings of one thing.
type drawing struct{ Wide, Narrow template.HTML }

// An svg is written from left to right; all text that is put into it is escaped.
type svg struct{ strings.Builder }

func (s *svg) open(id, title, desc string, width, height int) {
	fmt.Fprintf(s, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		width, height, id, id, id, escaped(title), id, escaped(desc))
}

func (s *svg) close() template.HTML {
	fmt.Fprint(s, "</svg>")
	return template.HTML(s.String()) //nolint:gosec // made here; what is not is escaped
}

func (s *svg) text(class string, x, y float64, anchor, text string) {
	fmt.Fprintf(s, `<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`, class, num(x), num(y), anchor, escaped(text))
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(s, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, num(x1), num(y1), num(x2), num(y2))
}

func (s *svg) rect(class string, x, y, width, height float64) {
	fmt.Fprintf(s, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, class, num(x), num(y), num(width), num(height))
}

func (s *svg) circle(class string, x, y, r float64) {
	fmt.Fprintf(s, `<circle class="%s" cx="%s" cy="%s" r="%s"/>`, class, num(x), num(y), num(r))
}

func num(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

// A plotRow is one row of exam versus field.
type plotRow struct {
	Name        string
	Exam, Field share
	Limit       bool // the limit of the rule is drawn: it holds for the whole and not for a family
}

// rowsOf are the whole comparison and, for reading, its families.
func rowsOf(c comparison) []plotRow {
	rows := []plotRow{{"All tasks", c.Exam, c.Field, true}}
	for _, f := range c.Families {
		rows = append(rows, plotRow{familyName(f.Family), wilson(f.ExamCount, f.ExamPassed), wilson(f.FieldCount, f.FieldPassed), false})
	}
	return rows
}

func wilson(counted, passed int) share {
	if counted == 0 {
		return share{}
	}
	i := stats.Wilson(stats.Counts{N: counted, Passes: passed})
	return share{counted, passed, float64(passed) / float64(counted), i.Lo, i.Hi, true, true}
}

// examVersusField draws rates with their intervals: a dot on a solid line for the exam, a
// square on a dashed one for the field. Behind them stands how far below the exam the
// rule of the verdict begins.
func examVersusField(id string, rows []plotRow, t finding.Thresholds) drawing {
	const title = "Share of tasks done right, exam versus field, with 95 % intervals"
	var desc strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&desc, "%s: exam %s of %d tasks, field %s of %d. ", r.Name, r.Exam.Text(), r.Exam.Counted, r.Field.Text(), r.Field.Counted)
	}
	draw := func(id string, width int, left, rowHeight, label float64) template.HTML {
		var s svg
		const top, right = 26.0, 18.0
		bottom := top + rowHeight*float64(len(rows))
		s.open(id, title, strings.TrimSpace(desc.String()), width, int(bottom)+6)
		x := func(rate float64) float64 { return left + rate*(float64(width)-right-left) }
		for i, tick := range []float64{0, .25, .5, .75, 1} {
			anchor := "middle"
			if i == 0 && left < 20 {
				anchor = "start"
			}
			s.line("grid", x(tick), top, x(tick), bottom)
			s.text("tick", x(tick), 16, anchor, percent(tick))
		}
		for i, r := range rows {
			y := top + rowHeight*float64(i)
			s.text("name", 0, y+16, "start", r.Name)
			counts := fmt.Sprintf("%d exam · %d field", r.Exam.Counted, r.Field.Counted)
			if label > 0 { // the row below the name is drawn
				s.text("tick", float64(width), y+16, "end", counts)
			} else {
				s.text("tick", 0, y+32, "start", counts)
			}
			y += label
			if limit := r.Exam.Rate - float64(t.MinDropPoints)/100; r.Limit && r.Exam.HasRate && limit > 0 {
				s.rect("below", x(0), y+4, x(limit)-x(0), 32)
				s.line("limit", x(limit), y+4, x(limit), y+36)
			}
			if r.Exam.HasRate {
				s.line("exam", x(r.Exam.Low), y+12, x(r.Exam.High), y+12)
				s.circle("exam", x(r.Exam.Rate), y+12, 5)
			}
			if r.Field.HasRate {
				s.line("field", x(r.Field.Low), y+28, x(r.Field.High), y+28)
				s.rect("field", x(r.Field.Rate)-5, y+23, 10, 10)
			}
		}
		return s.close()
	}
	return drawing{draw(id+"-w", 760, 210, 48, 0), draw(id+"-n", 360, 8, 66, 20)}
}

// latencies draws the middle and the ninetieth percentile of both arms.
func latencies(id string, f finding.Reached) (drawing, bool) {
	type arm struct {
		name, class string
		median, p90 float64
	}
	read := func(name, class string, a finding.Arm) (arm, bool) {
		median, err := strconv.ParseFloat(a.MedianMs, 64)
		p90, err90 := strconv.ParseFloat(a.P90Ms, 64)
		return arm{name, class, median, p90}, err == nil && err90 == nil
	}
	exam, ok1 := read("Exam", "exam", f.Exam)
	field, ok2 := read("Field", "field", f.Field)
	if !ok1 || !ok2 {
		return drawing{}, false
	}
	limit := niceLimit(max(exam.p90, field.p90, exam.median, field.median))
	desc := fmt.Sprintf("Exam: half within %s, nine in ten within %s. Field: half within %s, nine in ten within %s.",
		milliseconds(f.Exam.MedianMs), milliseconds(f.Exam.P90Ms), milliseconds(f.Field.MedianMs), milliseconds(f.Field.P90Ms))
	draw := func(id string, width int) template.HTML {
		var s svg
		const left, right, top = 62.0, 30.0, 26.0
		s.open(id, "Time to answer", desc, width, 110)
		x := func(ms float64) float64 { return left + ms/limit*(float64(width)-left-right) }
		for _, tick := range []float64{0, .5, 1} {
			s.line("grid", x(tick*limit), top, x(tick*limit), 104)
			s.text("tick", x(tick*limit), 16, "middle", milliseconds(num(tick*limit)))
		}
		for i, a := range []arm{exam, field} {
			y := top + 20 + 38*float64(i)
			s.text("name", 0, y+5, "start", a.name)
			s.line(a.class, x(a.median), y, x(a.p90), y)
			if a.class == "exam" {
				s.circle("exam", x(a.median), y, 5)
			} else {
				s.rect("field", x(a.median)-5, y-5, 10, 10)
			}
			s.line("end "+a.class, x(a.p90), y-7, x(a.p90), y+7)
		}
		return s.close()
	}
	return drawing{draw(id+"-w", 760), draw(id+"-n", 360)}, true
}

// niceLimit is the end of an axis: 1, 2 or 5 times a power of ten.
func niceLimit(v float64) float64 {
	if v <= 0 {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*base {
			return m * base
		}
	}
	return 10 * base
}

// timeline draws one column for each day of a consent: what was done right goes up, what
// was not goes down, and what does not count is a ring on the line.
func timeline(id string, first, last uint32, days []projections.DayTally) drawing {
	right, wrong, lost, most := 0, 0, 0, 1
	for _, d := range days {
		up, down, off := split(d.Endings)
		right, wrong, lost = right+up, wrong+down, lost+off
		most = max(most, up, down)
	}
	if n := len(days); n > 0 {
		first, last = min(first, days[0].Day), max(days[n-1].Day, first)
	}
	desc := fmt.Sprintf("From %s to %s: %d tasks done right, %d not, %d that do not count. The list below has each one.",
		day(first), day(last), right, wrong, lost)
	draw := func(id string, width int) template.HTML {
		var s svg
		const left, margin, half, axis = 2.0, 2.0, 44.0, 52.0
		s.open(id, "Revealed tasks, day by day", desc, width, 130)
		step := (float64(width) - left - margin) / float64(last-first+1)
		bar := max(min(step-1, 14), 1)
		var up, down, rings strings.Builder
		for _, d := range days {
			x := left + (float64(d.Day-first)+.5)*step
			n, m, off := split(d.Endings)
			column(&up, x-bar/2, axis-2, bar, -half*float64(n)/float64(most))
			column(&down, x-bar/2, axis+2, bar, half*float64(m)/float64(most))
			if off > 0 {
				r := max(min(bar/2, 4), 1)
				fmt.Fprintf(&rings, "M%s %sa%s %s 0 1 0 %s 0a%s %s 0 1 0 -%s 0", num(x-r), num(axis), num(r), num(r), num(2*r), num(r), num(r), num(2*r))
			}
		}
		s.line("grid", left, axis, float64(width)-margin, axis)
		for _, part := range []struct{ class, path string }{{"right", up.String()}, {"wrong", down.String()}, {"lost", rings.String()}} {
			if part.path != "" {
				fmt.Fprintf(&s, `<path class="%s" d="%s"/>`, part.class, part.path)
			}
		}
		s.text("tick", left, 124, "start", day(first))
		s.text("tick", float64(width)-margin, 124, "end", day(last))
		return s.close()
	}
	return drawing{draw(id+"-w", 760), draw(id+"-n", 360)}
}

func column(b *strings.Builder, x, y, width, height float64) {
	if height != 0 {
		fmt.Fprintf(b, "M%s %sh%sv%sh-%sz", num(x), num(y), num(width), num(height), num(width))
	}
}

// split sorts what became of tasks into right, not right, and not counted.
func split(endings map[string]int) (right, wrong, lost int) {
	for ending, n := range endings {
		switch ending {
		case string(task.Pass):
			right += n
		case string(task.Blocked), string(shop.StateMissed), string(shop.StateCancelled):
			lost += n
		default:
			wrong += n
		}
	}
	return right, wrong, lost
}

// day writes a day as people read it.
func day(d uint32) string { return domain.DayStart(d).Format("2 Jan 2006") }
