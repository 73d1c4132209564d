package domain

import "time"

// secondsPerDay is the length of a UTC day; Unix time has no leap seconds.
const secondsPerDay = 86400

// DayOf returns the UTC day number of t: whole days since 1970-01-01.
func DayOf(t time.Time) uint32 { return uint32(t.Unix() / secondsPerDay) } //nolint:gosec // good for eleven million years

// DayStart returns midnight UTC at the start of the given day number.
func DayStart(day uint32) time.Time { return time.Unix(int64(day)*secondsPerDay, 0).UTC() }

// DayString returns the ISO 8601 date of a day number, such as 2026-03-01.
func DayString(day uint32) string { return DayStart(day).Format(time.DateOnly) }
