package job

import (
	"time"

	"github.com/robfig/cron/v3"
)

// aligned ticks at the multiples of a delay since the zero time, so that the ticks are the same in all processes.
type aligned time.Duration

// Next implements cron.Schedule.
func (a aligned) Next(t time.Time) time.Time {
	return t.Truncate(time.Duration(a)).Add(time.Duration(a))
}

// everyHour is the bit with which package cron marks an hour of *.
const everyHour = 1 << 63

// atTimesOfDay makes a schedule tick by the local time of day. Each local time is one moment, also where clocks change.
func atTimesOfDay(s *cron.SpecSchedule) cron.Schedule {
	if s.Hour&everyHour != 0 {
		return s
	}
	w := timeOfDay{schedule: *s}
	if s.Location != time.Local { // named in the expression
		w.location, w.schedule.Location = s.Location, time.Local
	}
	return &w
}

// timeOfDay is a schedule of local times in a location or, without one, in the location of Next's argument.
type timeOfDay struct {
	schedule cron.SpecSchedule
	location *time.Location
}

// Next implements cron.Schedule. It passes local times to the schedule as if they were in UTC, where no time is skipped or
// repeated.
func (w *timeOfDay) Next(t time.Time) time.Time {
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

// asUTC returns the local time at t as a time in UTC.
func asUTC(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// moment returns when local clocks show a reading: the first such moment if they show it twice, the end of the gap if they
// never show it.
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
