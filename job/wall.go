package job

import (
	"time"

	"github.com/robfig/cron/v3"
)

// aligned ticks at the multiples of a delay since the zero time, so that all processes mean the same ticks.
type aligned time.Duration

// Next implements cron.Schedule.
func (a aligned) Next(t time.Time) time.Time {
	return t.Truncate(time.Duration(a)).Add(time.Duration(a))
}

// everyHour is the bit with which package cron marks an hour of *.
const everyHour = 1 << 63

// onWall makes a schedule tick by the clock on the wall, each of whose times is one moment.
func onWall(s *cron.SpecSchedule) cron.Schedule {
	if s.Hour&everyHour != 0 {
		return s
	}
	w := wall{schedule: *s}
	if s.Location != time.Local { // named in the expression
		w.location, w.schedule.Location = s.Location, time.Local
	}
	return &w
}

// wall is a schedule of times of day in a location; nil for that of the time that Next is given.
type wall struct {
	schedule cron.SpecSchedule
	location *time.Location
}

// Next implements cron.Schedule. It lets the schedule see the wall's times as if they were in UTC, where none is missing
// and none comes twice.
func (w *wall) Next(t time.Time) time.Time {
	if w.location != nil {
		t = t.In(w.location)
	}
	for reading := asUTC(t); ; {
		reading = w.schedule.Next(reading)
		if reading.IsZero() { // never, such as on 30 February
			return reading
		}
		if next := moment(reading, t.Location()); next.After(t) {
			return next
		}
	}
}

// asUTC is the reading of the wall's clock at t, as a time in UTC.
func asUTC(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// moment is when the wall's clock shows a reading: the first time where it does so twice, the end of the gap where it
// never does.
func moment(reading time.Time, location *time.Location) time.Time {
	t := time.Date(reading.Year(), reading.Month(), reading.Day(), reading.Hour(), reading.Minute(), reading.Second(), reading.Nanosecond(), location)
	from, to := t.ZoneBounds()
	switch shown := asUTC(t); {
	case shown.After(reading):
		return from
	case shown.Before(reading):
		return to
	case from.IsZero():
		return t
	}
	_, before := from.Add(-time.Second).Zone()
	if earlier := reading.Add(-time.Duration(before) * time.Second); earlier.Before(from) {
		return earlier.In(location)
	}
	return t
}
