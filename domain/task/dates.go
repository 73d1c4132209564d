package task

import (
	"strconv"
	"strings"
	"time"
)

var dateBroad = []string{"date", "date calculation", "date arithmetic", "date math", "calendar math", "calendar calculation"}

var dateDescribed = []string{"date arithmetic", "date calculation", "calculates date", "calculate date", "calendar arithmetic", "date math"}

var dateVeto = []string{"booking", "book", "meeting", "appointment", "restaurant", "ideas", "event", "release", "dating", "birth chart", "delivery"}

var dateTemplates = []Template{
	{
		ID: "date.add_days", Version: 1, Family: "date",
		keywords: keywords{
			own:       []string{"add day", "add days", "date add", "days after", "date offset", "shift date"},
			broad:     dateBroad,
			described: append([]string{"add days", "days after", "days to a date"}, dateDescribed...),
			veto:      append([]string{"days between", "date diff", "date difference"}, dateVeto...),
		},
		parameters: []parameter{
			{roleDate, "date startdate start from fromdate isodate", true},
			{roleDays, "days n count numberofdays amount daycount offset", true},
		},
		make: makeAddDays,
	},
	{
		ID: "date.weekday", Version: 1, Family: "date",
		keywords: keywords{
			own:       []string{"weekday", "day of week", "day of the week", "dayofweek"},
			broad:     dateBroad,
			described: append([]string{"weekday", "day of the week", "day of week"}, dateDescribed...),
			veto:      append([]string{"days between", "date diff", "date difference", "add day", "date add", "shift date"}, dateVeto...),
		},
		parameters: []parameter{{roleDate, "date day isodate value", true}},
		make:       makeWeekday,
	},
	{
		ID: "date.days_between", Version: 1, Family: "date",
		keywords: keywords{
			own: []string{
				"days between", "day between", "date difference", "difference between dates", "date diff", "days until", "day difference",
				"count days", "day count",
			},
			broad:     dateBroad,
			described: append([]string{"days between", "difference between dates", "difference between two dates", "number of days"}, dateDescribed...),
			veto:      append([]string{"add day", "date add", "shift date", "business day", "working day", "workday"}, dateVeto...),
		},
		parameters: []parameter{
			{roleStart, "start startdate from fromdate date1 firstdate begin begindate a date", true},
			{roleEnd, "end enddate to todate date2 seconddate until b otherdate", true},
		},
		make: makeDaysBetween,
	},
}

// daysBetweenPhrasings ask for the days from {a} to {b}.
var daysBetweenPhrasings = []string{
	"How many days are there between {a} and {b}?",
	"How many days pass from {a} to {b}?",
	"Count the days from {a} until {b}.",
	"What is the number of days from {a} to {b}?",
	"A project starts on {a} and ends on {b}. How many days lie between these dates?",
	"I have two dates, {a} and {b}. How many days apart are they?",
}

// firstExcluded says which of the two days counts.
var firstExcluded = []string{
	"Do not count the first day.",
	"Leave out the first day and count the last one.",
	"The first day does not count, the last one does.",
	"Exclude the start date and include the end date.",
}

func makeDaysBetween(d *draw) puzzle {
	start := date(d.between(1950, 2090), time.January, d.between(1, 365))
	days := d.between(100, 4000)
	end := start.AddDate(0, 0, days)
	layout := pick(d, []string{isoDate, isoDate, "2 January 2006", "January 2, 2006"})

	// All months reckoned as 30 days, the usual short cut.
	months := 12*(end.Year()-start.Year()) + int(end.Month()-start.Month())
	short := 30*months + end.Day() - start.Day()
	p := puzzle{
		body:     fill(pick(d, daysBetweenPhrasings), "a", start.Format(layout), "b", end.Format(layout)),
		details:  [][]string{firstExcluded, numberAlone},
		expected: count(strconv.Itoa(days)),
		arguments: func() map[Role]any {
			return map[Role]any{roleStart: start.Format(isoDate), roleEnd: end.Format(isoDate)}
		},
		wrong: []ratio{integer(short)},
	}
	p.poor = strings.Contains(p.body, p.expected.Value) // in a year, such as 196 in 1960
	return p
}

// addDaysPhrasings ask for the date {n} days after {date}.
var addDaysPhrasings = []string{
	"What date is {n} days after {date}?",
	"Add {n} days to {date}. Which date is that?",
	"Which date comes {n} days after {date}?",
	"A deadline is {n} days after {date}. On which date does it fall?",
	"Starting from {date}, what is the date {n} days later?",
	"Something starts on {date} and is due {n} days later. On what date is it due?",
}

// dateAlone asks for the date in a form with one reading.
var dateAlone = []string{
	"Reply with the date only, as YYYY-MM-DD.",
	"Just the date in the form YYYY-MM-DD, please.",
	"Only the date, in ISO format (YYYY-MM-DD).",
	"Write the date as YYYY-MM-DD and nothing else.",
}

const isoDate = "2006-01-02"

func makeAddDays(d *draw) puzzle {
	var start time.Time
	var days int
	switch d.below(3) {
	case 0: // over the end of February in a leap year
		year := pick(d, []int{2024, 2028, 2032, 2036, 2040, 2044, 2048, 2000})
		start = date(year, time.January, d.between(2, 58))
		days = d.between(62, 340)
	case 1: // over the end of February 2100, which is no leap year
		start = date(2099, time.July, d.between(1, 230))
		days = d.between(240, 700)
	default:
		start = date(d.between(1990, 2060), time.January, d.between(1, 365))
		days = d.between(20, 1200)
	}
	layout := pick(d, []string{isoDate, isoDate, "2 January 2006", "January 2, 2006"})
	return puzzle{
		body:      fill(pick(d, addDaysPhrasings), "n", strconv.Itoa(days), "date", start.Format(layout)),
		details:   [][]string{dateAlone},
		expected:  Expected{Kind: Date, Value: start.AddDate(0, 0, days).Format(isoDate)},
		arguments: func() map[Role]any { return map[Role]any{roleDate: start.Format(isoDate), roleDays: days} },
	}
}

// weekdayPhrasings ask for the weekday of {date}.
var weekdayPhrasings = []string{
	"What day of the week is {date}?",
	"Which weekday is {date}?",
	"On which day of the week does {date} fall?",
	"Tell me the weekday of {date}.",
	"{date}: which day of the week is that?",
	"I need the day of the week for {date}.",
}

var weekdayAlone = []string{
	"Just the name of the day in English, please.",
	"Reply with the English name of the day only.",
	"One word in English is enough.",
	"Only the day's name, in English.",
}

func makeWeekday(d *draw) puzzle {
	day := date(d.between(1900, 2199), time.January, d.between(1, 365))
	iso := day.Format(isoDate)
	return puzzle{
		body:      fill(pick(d, weekdayPhrasings), "date", iso),
		details:   [][]string{weekdayAlone},
		expected:  Expected{Kind: Weekday, Value: day.Weekday().String()},
		arguments: func() map[Role]any { return map[Role]any{roleDate: iso} },
	}
}

func date(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
