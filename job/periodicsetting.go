package job

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// storedPeriodic is a periodic job as a setting holds it.
type storedPeriodic struct {
	Deleted  bool       `json:"deleted,omitempty"` // no job, even if there is a default
	Cron     string     `json:"cron,omitempty"`
	TimeZone string     `json:"time_zone,omitempty"`
	Missed   Missed     `json:"missed,omitempty"`
	Job      *storedJob `json:"job,omitempty"`
}

// storedJob is the job of each tick.
type storedJob struct {
	Type        string            `json:"type"`
	Queue       string            `json:"queue,omitempty"`
	Payload     json.RawMessage   `json:"payload,omitempty"`
	Priority    int               `json:"priority,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Timeout     time.Duration     `json:"timeout_ns,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
}

// PeriodicSetting sets a periodic job: a new one, or a replacement for the one with the same name. Its payload is JSON.
func PeriodicSetting(p Periodic) (Setting, error) {
	s := Setting{Kind: SettingPeriodic, Name: p.Name}
	payload, err := encode(p.Request.Payload)
	if err == nil && (!json.Valid(payload) || !utf8.Valid(payload)) {
		err = errors.New("not JSON")
	}
	if err != nil {
		return s, &SettingError{"payload", err.Error()}
	}
	if len(p.Request.UniqueKey) > 0 || !p.Request.RunAt.IsZero() {
		return s, &SettingError{"job", "leave out unique_key and run_at; each tick sets them"}
	}
	zone := ""
	if p.Location != nil {
		if zone = p.Location.String(); !knownZone(p.Location) {
			return s, &SettingError{"time_zone", fmt.Sprintf("%q is not a time zone that other machines know; give one of time.LoadLocation, such as Europe/Berlin", zone)}
		}
	}
	compact := &bytes.Buffer{}
	if err := json.Compact(compact, payload); err != nil {
		return s, &SettingError{"payload", err.Error()}
	}
	r := p.Request
	s.Value, err = json.Marshal(storedPeriodic{Cron: p.Cron, TimeZone: zone, Missed: p.Missed, Job: &storedJob{
		Type: r.Type, Queue: r.Queue, Payload: compact.Bytes(), Priority: r.Priority, MaxAttempts: r.MaxAttempts, Timeout: r.Timeout, Meta: r.Meta,
	}})
	if err != nil {
		return s, &SettingError{"periodic", err.Error()}
	}
	return s, s.Check()
}

// knownZone reports whether a location's name stands for it on every machine, unlike those of time.Local and time.FixedZone.
func knownZone(l *time.Location) bool {
	known, err := time.LoadLocation(l.String())
	if err != nil || l.String() == "Local" {
		return false
	}
	for month := range time.Month(12) {
		at := time.Date(time.Now().Year(), month+1, 1, 12, 0, 0, 0, time.UTC)
		_, offset := at.In(l).Zone()
		if _, same := at.In(known).Zone(); offset != same {
			return false
		}
	}
	return true
}

// DeletedPeriodicSetting ends a periodic job, even one that workers have from a file or from code. A setting without a value
// brings such a job back.
func DeletedPeriodicSetting(name string) Setting {
	return Setting{Kind: SettingPeriodic, Name: name, Value: json.RawMessage(`{"deleted":true}`)}
}

// Periodic returns the periodic job of a setting. It is nil if the job was deleted or the default applies; deleted tells these apart.
func (s *Setting) Periodic() (p *Periodic, deleted bool, err error) {
	return decodePeriodic(s.Name, s.Value)
}

func decodePeriodic(name string, value json.RawMessage) (p *Periodic, deleted bool, err error) {
	if value == nil {
		return nil, false, nil
	}
	var stored storedPeriodic
	strict := json.NewDecoder(bytes.NewReader(value))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&stored); err != nil {
		return nil, false, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if stored.Deleted {
		return nil, true, nil
	}
	if stored.Job == nil {
		return nil, false, errors.New("job: missing")
	}
	location, err := time.LoadLocation(stored.TimeZone)
	if err != nil || stored.TimeZone == "Local" { // which differs between machines
		return nil, false, fmt.Errorf("time_zone: %q is not a time zone such as Europe/Berlin", stored.TimeZone)
	}
	j := stored.Job
	p = &Periodic{Name: name, Cron: stored.Cron, Location: location, Missed: stored.Missed, Request: Request{
		Type: j.Type, Queue: j.Queue, Payload: j.Payload, Priority: j.Priority, MaxAttempts: j.MaxAttempts, Timeout: j.Timeout, Meta: j.Meta,
	}}
	if j.Payload == nil {
		p.Request.Payload = nil
	}
	return p, false, checkPeriodic([]Periodic{*p})
}

// PeriodicState is a periodic job with its origin.
type PeriodicState struct {
	Periodic
	Set Setting // by an operator; without a value if the definition is the default
}

// PeriodicJobs returns the periodic jobs that workers with these defaults follow, by name.
func PeriodicJobs(defaults []Periodic, settings []Setting) []PeriodicState {
	var list []PeriodicState
	set := map[string]bool{}
	for _, s := range settings {
		if s.Kind != SettingPeriodic || s.Value == nil {
			continue
		}
		set[s.Name] = true
		if p, _, err := s.Periodic(); p != nil && err == nil {
			list = append(list, PeriodicState{*p, s})
		}
	}
	for _, p := range defaults {
		if !set[p.Name] {
			list = append(list, PeriodicState{Periodic: p})
		}
	}
	slices.SortFunc(list, func(a, b PeriodicState) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// follow applies settings to the periodic jobs of code. The entries of unchanged definitions keep their next tick.
//
// Each tick follows one definition, whichever worker enqueues it and whenever it was started: ticks up to settleTicks after a
// change follow the former definition, later ones the new one. Ticks of definitions before the former are made up for by workers
// that knew them.
func (s *schedule) follow(code []Periodic, settings []Setting, log *slog.Logger) {
	now := time.Now()
	before := s.entries
	s.entries = nil
	add := func(p *Periodic, after, until time.Time) {
		if p == nil || !until.IsZero() && now.Sub(until) > lookBack {
			return
		}
		i := slices.IndexFunc(before, func(e entry) bool {
			return e.after.Equal(after) && e.until.Equal(until) && reflect.DeepEqual(e.periodic, p)
		})
		if i >= 0 {
			s.entries = append(s.entries, before[i])
			return
		}
		c, err := p.parse()
		if err != nil { // checked when the worker started, or when it was read
			return
		}
		e := entry{periodic: p, cron: c, after: after, until: until}
		e.next = e.first(now)
		s.entries = append(s.entries, e)
	}
	defaults := map[string]*Periodic{}
	for i := range code {
		defaults[code[i].Name] = &code[i]
	}
	define := func(name string, value json.RawMessage) *Periodic {
		p, _, err := decodePeriodic(name, value)
		switch {
		case err != nil:
			log.Warn("job: a periodic job of the store cannot be followed; set it again", "name", name, "error", err)
			return nil
		case value == nil:
			return defaults[name]
		}
		return p
	}
	for _, x := range settings {
		if x.Kind != SettingPeriodic {
			continue
		}
		change := x.At.Add(settleTicks)
		former := time.Time{}
		if !x.PreviousAt.IsZero() {
			former = x.PreviousAt.Add(settleTicks)
		}
		add(define(x.Name, x.Previous), former, change)
		add(define(x.Name, x.Value), change, time.Time{})
		delete(defaults, x.Name)
	}
	for i := range code {
		add(defaults[code[i].Name], time.Time{}, time.Time{})
	}
	for _, e := range before {
		if !e.until.IsZero() && !e.ended() {
			s.entries = append(s.entries, e)
		}
	}
}
