package job

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Entrant is a job at the gate.
type Entrant struct {
	ID        string
	Needs     []string // buckets in which it needs places
	Holds     []string // buckets in which it has kept its place
	Line      string   // the bucket that it waits for; "" for a job that has just come
	Priority  int
	RunAt     time.Time
	CreatedAt time.Time
}

// Rank returns the order of the entrant in its line: by rank, then by time, then by ID.
func (e *Entrant) Rank() (rank int, since time.Time) {
	switch {
	case slices.Contains(e.Holds, e.Line):
		return -1, e.CreatedAt
	case keeps(e.Line):
		return 0, e.CreatedAt
	}
	return e.Priority, e.RunAt
}

// Before reports whether e stands before another entrant of its line.
func (e *Entrant) Before(other *Entrant) bool { return e.compare(other) < 0 }

func (e *Entrant) compare(other *Entrant) int {
	rank, since := e.Rank()
	otherRank, otherSince := other.Rank()
	return cmp.Or(cmp.Compare(rank, otherRank), since.Compare(otherSince), strings.Compare(e.ID, other.ID))
}

// GateEvents are what has happened to the jobs and places of a store since its gate was last tended. A name stands in a list
// once for each job.
type GateEvents struct {
	Arrived []*Entrant // jobs that have become due, and those of a limit that has changed
	Freed   []string   // places that were given up, after a start or a retry
	Dropped []string   // places that were given up before a start
	Taken   []string   // places of running jobs that have a limit since they started
	Left    []string   // lines that jobs have left without a place
	Started []string   // places of jobs that were claimed, in buckets that count starts
	At      time.Time  // when they started
	Touched []string   // buckets that may have room for other reasons
}

// Empty reports whether nothing has happened.
func (v *GateEvents) Empty() bool {
	return len(v.Arrived)+len(v.Freed)+len(v.Dropped)+len(v.Taken)+len(v.Left)+len(v.Started)+len(v.Touched) == 0
}

// Start notes that a ready job with places was claimed.
func (v *GateEvents) Start(places []string, at time.Time) {
	for _, name := range places {
		if rated(name) {
			v.Started, v.At = append(v.Started, name), at
		}
	}
}

// Leave notes what a job gives up that goes from one state to another without being claimed, or is removed, which is the state "": some
// of its places, and the line in which it waits, "" for none. It returns the places that the job keeps.
func (v *GateEvents) Leave(from, to State, line string, places []string) (kept []string) {
	switch {
	case line != "":
		v.Left = append(v.Left, line)
		v.Freed = append(v.Freed, places...)
	case from == Ready:
		v.Dropped = append(v.Dropped, places...)
	case to.Finished() || to == "":
		v.Freed = append(v.Freed, places...)
	case from == Running:
		for _, name := range places {
			if keeps(name) {
				kept = append(kept, name)
			} else {
				v.Freed = append(v.Freed, name)
			}
		}
	default:
		return places
	}
	return kept
}

// Replace notes that a running job has other places than before, since a limit has changed.
func (v *GateEvents) Replace(before, now []string) {
	v.Taken = append(v.Taken, without(now, before)...)
	v.Freed = append(v.Freed, without(before, now)...)
}

// GateStore is what a gate reads of a store.
type GateStore interface {
	// Buckets returns the stored states of buckets; those that are not stored may be absent.
	Buckets(names []string) ([]*Bucket, error)
	// Lines returns the first entrants of lines, at most the number given for each, in the order of their ranks.
	Lines(first map[string]int) ([]*Entrant, error)
}

// GateResult is what a store has to write.
type GateResult struct {
	Admitted []*Entrant // are ready, with places in all that they need
	Lined    []*Entrant // wait in a line, which is new or another one
	Buckets  []*Bucket  // all that may have changed
	More     []string   // buckets to be touched in the next step
}

// maxAdmitted bounds the jobs that one step takes from lines.
const maxAdmitted = 4000

// Tend applies events and gives free places to the jobs that are next, at most 4,000 from the lines. Its cost depends neither on
// the number of buckets nor on that of waiting jobs.
func (g *Gate) Tend(events []GateEvents, s GateStore, now time.Time) (*GateResult, error) {
	t := &tending{gate: g, store: s, now: now, buckets: map[string]*Bucket{}, came: map[string][]*Entrant{}, fresh: map[*Entrant]bool{}}
	if err := t.apply(events); err != nil {
		return nil, err
	}
	lines, err := t.read()
	if err != nil {
		return nil, err
	}
	for _, name := range t.touched {
		t.admit(name, lines[name])
	}
	for _, b := range t.buckets {
		t.result.Buckets = append(t.result.Buckets, b)
	}
	slices.SortFunc(t.result.Buckets, func(a, b *Bucket) int { return strings.Compare(a.Name, b.Name) })
	return &t.result, nil
}

// tending is one step of a gate.
type tending struct {
	gate    *Gate
	store   GateStore
	now     time.Time
	buckets map[string]*Bucket
	touched []string              // sorted
	came    map[string][]*Entrant // new entrants, by the line in which they begin
	fresh   map[*Entrant]bool     // all of them
	asked   map[string]int        // how many entrants of each line were read
	result  GateResult
}

// load reads the states of buckets that are not known yet.
func (t *tending) load(names []string) error {
	var unknown []string
	for _, name := range names {
		if t.buckets[name] == nil {
			t.buckets[name] = &Bucket{Name: name}
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	found, err := t.store.Buckets(unknown)
	for _, b := range found {
		if l := t.gate.limit(b.Name); l != nil && l.Rate.Count > 0 {
			if latest := t.now.Add(time.Duration(l.Rate.Burst) * l.step); b.Next.After(latest) { // the rate was lower
				b.Next = latest
			}
		}
		t.buckets[b.Name] = b
	}
	return err
}

// apply applies the events to the buckets.
func (t *tending) apply(events []GateEvents) error {
	var names []string
	for i := range events {
		v := &events[i]
		for _, list := range [][]string{v.Freed, v.Dropped, v.Taken, v.Left, v.Started, v.Touched} {
			names = append(names, list...)
		}
		for _, e := range v.Arrived {
			names = append(append(names, e.Needs...), e.Holds...)
		}
	}
	slices.Sort(names)
	t.touched = slices.Compact(names)
	if err := t.load(t.touched); err != nil {
		return err
	}
	for i := range events {
		t.note(&events[i])
	}
	return nil
}

func (t *tending) note(v *GateEvents) {
	for _, name := range v.Started { // before places are given up: a job starts before it ends
		t.buckets[name].start(t.gate.limit(name), v.At)
	}
	for _, name := range v.Taken {
		t.buckets[name].Held++
	}
	for _, name := range v.Freed {
		t.buckets[name].Held--
	}
	for _, name := range v.Dropped {
		b := t.buckets[name]
		b.Held--
		if rated(name) {
			b.Unstarted--
		}
	}
	for _, name := range v.Left {
		t.buckets[name].Waiting--
	}
	for _, e := range v.Arrived {
		for _, name := range without(e.Holds, e.Needs) {
			t.buckets[name].Held--
		}
		e.Holds = without(e.Holds, without(e.Holds, e.Needs))
		if slices.ContainsFunc(e.Holds, t.over) {
			for _, name := range e.Holds {
				t.buckets[name].Held--
			}
			e.Holds = nil
		}
		if len(e.Needs) == 0 {
			t.result.Admitted = append(t.result.Admitted, e)
			continue
		}
		t.fresh[e] = true
		t.came[e.Needs[0]] = append(t.came[e.Needs[0]], e)
	}
}

// over reports whether more jobs ran in a bucket when its limit came than it has places.
func (t *tending) over(bucket string) bool {
	l := t.gate.limit(bucket)
	return l != nil && l.Concurrency > 0 && t.buckets[bucket].Held > l.Concurrency
}

// room returns how many more places a bucket can give, and whether it can give one to a job that has kept its own. A limit
// that is no longer in force gives none: its jobs pass the gate again.
func (t *tending) room(name string) (places int, again bool) {
	l, b := t.gate.limit(name), t.buckets[name]
	if l == nil {
		return 0, false
	}
	places = maxAdmitted
	if l.Rate.Count > 0 {
		places = min(places, b.starts(l, t.now))
	}
	again = places > 0
	if l.Concurrency > 0 {
		places = min(places, max(l.Concurrency-b.Held, 0))
	}
	return places, again
}

// read reads the entrants who may get the places of the touched buckets, and the other buckets that they need.
func (t *tending) read() (map[string][]*Entrant, error) {
	t.asked = map[string]int{}
	total := 0
	for _, name := range t.touched {
		n, again := t.room(name)
		if again && keeps(name) {
			n = max(n, 1)
		}
		if n = min(n, t.buckets[name].Waiting); n <= 0 {
			continue
		}
		if total >= maxAdmitted {
			t.result.More = append(t.result.More, name)
			continue
		}
		t.asked[name] = min(n, maxAdmitted-total)
		total += t.asked[name]
	}
	lines := map[string][]*Entrant{}
	if len(t.asked) == 0 {
		return lines, nil
	}
	list, err := t.store.Lines(t.asked)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, e := range list {
		lines[e.Line] = append(lines[e.Line], e)
		others = append(others, e.Needs...)
	}
	return lines, t.load(others)
}

// admit gives the free places of a bucket to the first of its line.
func (t *tending) admit(name string, waiting []*Entrant) {
	line := slices.Clone(waiting)
	for _, e := range t.came[name] {
		e.Line = name
		line = append(line, e)
	}
	if len(line) > len(waiting) {
		slices.SortFunc(line, (*Entrant).compare)
	}
	closed := false
	for _, e := range line {
		obstacle := name
		if !closed {
			obstacle = t.obstacle(e)
		}
		switch {
		case obstacle == "":
			t.place(e)
		case t.fresh[e]:
			t.enter(e, obstacle)
		case obstacle != name:
			t.buckets[name].Waiting--
			t.enter(e, obstacle)
		}
		closed = closed || obstacle == name
	}
	if n := t.asked[name]; n > 0 && len(waiting) >= n && t.buckets[name].Waiting > 0 {
		if left, _ := t.room(name); left > 0 {
			t.result.More = append(t.result.More, name)
		}
	}
}

// obstacle returns the first bucket that has no place for an entrant, or "".
func (t *tending) obstacle(e *Entrant) string {
	for _, name := range e.Needs {
		places, again := t.room(name)
		if keeps := again && slices.Contains(e.Holds, name); places == 0 && !keeps {
			return name
		}
	}
	return ""
}

// place gives an entrant its places.
func (t *tending) place(e *Entrant) {
	if !t.fresh[e] {
		t.buckets[e.Line].Waiting--
	}
	for _, name := range e.Needs {
		b := t.buckets[name]
		if !slices.Contains(e.Holds, name) {
			b.Held++
		}
		if rated(name) {
			b.Unstarted++
		}
	}
	t.result.Admitted = append(t.result.Admitted, e)
}

// enter puts an entrant in a line.
func (t *tending) enter(e *Entrant, line string) {
	e.Line = line
	if !keeps(line) { // it has passed the buckets of order strict, which come first in Needs
		for _, name := range without(e.Needs, e.Holds) {
			if places, _ := t.room(name); keeps(name) && places > 0 {
				t.buckets[name].Held++
				e.Holds = append(slices.Clip(e.Holds), name)
			}
		}
	}
	t.buckets[line].Waiting++
	t.result.Lined = append(t.result.Lined, e)
}
