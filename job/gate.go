package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/policy"
)

// The types of this file are for stores. A job that becomes due passes the gate before it is ready:
//
//	due ──no limit──────────────────────► ready ──claim──► running ──settled, lost──► its places are free
//	 └───a limit──► waiting, in the line ──a place in the bucket of each limit──► ready
//	                of one full bucket
//
// A job is in one line at a time and takes its places all at once, so that it never holds one while it waits for another. The
// exception is a place in a bucket of order strict, which stays with the job until it has finished: jobs that have to wait for
// a retry keep it, and no job that holds a place of another kind waits for one of these.

// Gate knows the limits in force in a store. It is immutable.
type Gate struct {
	byQueue, byType map[string][]*gateLimit
	byID            map[int64]*gateLimit
}

// gateLimit is a limit in force.
type gateLimit struct {
	policy.JobLimit
	name   LimitName
	prefix string        // of the names of its buckets
	step   time.Duration // how much later a start makes the next one, in whole microseconds
}

// NewGate makes the gate of a store's limits.
func NewGate(limits []StoredLimit) *Gate {
	g := &Gate{byQueue: map[string][]*gateLimit{}, byType: map[string][]*gateLimit{}, byID: map[int64]*gateLimit{}}
	for _, s := range limits {
		in := s.InForce()
		if in == nil {
			continue
		}
		l := &gateLimit{JobLimit: in.Normalize(), name: s.LimitName}
		kind := "c"
		switch rated, strict := l.Rate.Count > 0, l.Order == policy.OrderStrict; {
		case rated && strict:
			kind = "b"
		case rated:
			kind = "r"
		case strict:
			kind = "s"
		}
		l.prefix = BucketPrefix(kind, s.ID)
		if n := time.Duration(l.Rate.Count); n > 0 {
			l.step = (l.Rate.Per + n*time.Microsecond - 1) / (n * time.Microsecond) * time.Microsecond
		}
		g.byID[s.ID] = l
		if s.Type != "" {
			g.byType[s.Type] = append(g.byType[s.Type], l)
		} else {
			g.byQueue[s.Queue] = append(g.byQueue[s.Queue], l)
		}
	}
	return g
}

// Empty reports whether no limit is in force.
func (g *Gate) Empty() bool { return g == nil || len(g.byID) == 0 }

// Bounds reports whether the jobs of a queue and type have a limit.
func (g *Gate) Bounds(queue, jobType string) bool {
	return g != nil && (len(g.byQueue[queue]) > 0 || len(g.byType[jobType]) > 0)
}

// Prefix returns what the names of all buckets of a limit begin with, or "" if it is not in force.
func (g *Gate) Prefix(id int64) string {
	if l := g.byID[id]; l != nil {
		return l.prefix
	}
	return ""
}

// PrefixOf returns the Prefix of a limit of a store, or ErrNotFound if the store does not have it.
func (g *Gate) PrefixOf(limits []StoredLimit, name LimitName) (string, error) {
	i := slices.IndexFunc(limits, func(l StoredLimit) bool { return l.LimitName == name })
	if i < 0 {
		return "", fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return g.Prefix(limits[i].ID), nil
}

// BucketPrefix returns what the names of the buckets of a limit begin with. Its first letter says what stores must know of a
// bucket without its limit: r counts starts, s keeps the places of jobs that wait for a retry, b does both, and c neither.
func BucketPrefix(kind string, id int64) string { return kind + strconv.FormatInt(id, 10) + " " }

// Keeps reports whether jobs keep their place in a bucket while they wait for a retry.
func Keeps(bucket string) bool { return bucket[0] == 's' || bucket[0] == 'b' }

// Rated reports whether the starts of the jobs of a bucket are counted.
func Rated(bucket string) bool { return bucket[0] == 'r' || bucket[0] == 'b' }

// Needs returns the names of the buckets that a job needs a place in, none if it has no limit. It reads the job's queue, type,
// metadata and payload.
func (g *Gate) Needs(r *Record) (names []string) {
	if g == nil {
		return nil
	}
	for _, list := range [][]*gateLimit{g.byQueue[r.Queue], g.byType[r.Type]} {
		for _, l := range list {
			names = append(names, l.prefix+bucketKey(l.Key, r))
		}
	}
	return names
}

// maxBucketKey is the length in bytes from which on the hash of a key takes its place, as it does for a key with control
// characters.
const maxBucketKey = 256

// bucketKey returns the fields of a key with their values, in the grammar of filters. A value that the job does not have is
// the empty text, and so is one that is neither a text nor a number nor a boolean.
func bucketKey(key []string, r *Record) string {
	var terms filter.Terms
	for _, field := range key {
		name, path, _ := strings.Cut(field, ".")
		value := ""
		switch name {
		case FieldQueue:
			value = r.Queue
		case FieldType:
			value = r.Type
		case FieldMeta:
			value = r.Meta[path]
		case FieldPayload:
			value = payloadText(r.Payload, path)
		}
		terms = append(terms, filter.Term{Field: name, Path: path, Values: filter.Exactly(value)})
	}
	text := terms.String()
	if len(text) > maxBucketKey || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		sum := sha256.Sum256([]byte(text))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return text
}

// WaitsFor describes the bucket that a job waits for.
func (g *Gate) WaitsFor(bucket string) string {
	id, key := splitBucket(bucket)
	text := "a limit that has changed"
	if l := g.byID[id]; l != nil {
		text = l.name.String()
	}
	if key != "" {
		text += ", " + key
	}
	return text
}

func splitBucket(name string) (id int64, key string) {
	number, key, _ := strings.Cut(name[1:], " ")
	id, _ = strconv.ParseInt(number, 10, 64)
	return id, key
}

// Bucket is the state of a bucket as stores keep it. One without places, waiting jobs and starts to remember need not be kept.
type Bucket struct {
	Name      string
	Held      int       // places of ready and running jobs, and those that jobs keep through a retry
	Unstarted int       // of them, those of jobs that have not started since they got them; only where starts are counted
	Waiting   int       // jobs in the line
	Next      time.Time // where starts are counted: when the last of them would have come at an even pace, plus one step
}

func (b *Bucket) limit() (id int64, key string) { return splitBucket(b.Name) }

// Idle reports whether the bucket need not be kept.
func (b *Bucket) Idle(now time.Time) bool { return b.Held == 0 && b.Waiting == 0 && !b.Next.After(now) }

// start counts a start at a time. This is the generic cell rate algorithm (ITU-T I.371): with count starts per period and a
// burst, no period has more than count + burst starts.
func (b *Bucket) start(l *gateLimit, at time.Time) {
	b.Unstarted = max(b.Unstarted-1, 0)
	if l == nil {
		return
	}
	if b.Next.Before(at) {
		b.Next = at
	}
	b.Next = b.Next.Add(l.step)
}

// starts returns how many more places the rate allows now: the starts that it allows, less the places that were given and not
// yet used for one. What is allowed only grows until the next start, so that whoever starts later stays within the rate.
func (b *Bucket) starts(l *gateLimit, now time.Time) int {
	allowed := l.Rate.Burst
	if ahead := b.Next.Sub(now); ahead > 0 {
		allowed -= int((ahead + l.step - 1) / l.step)
	}
	return max(allowed-b.Unstarted, 0)
}

// Due returns when the rate gives the bucket's next place, or zero if time alone gives none; for a bucket without jobs, when it
// can be forgotten.
func (g *Gate) Due(b *Bucket, now time.Time) time.Time {
	id, _ := b.limit()
	l := g.byID[id]
	switch {
	case !Rated(b.Name):
		return time.Time{}
	case b.Held == 0 && b.Waiting == 0:
		return b.Next
	case l == nil, b.Waiting == 0, b.starts(l, now) > 0, b.Unstarted >= l.Rate.Burst:
		return time.Time{}
	}
	return b.Next.Add(-time.Duration(l.Rate.Burst-b.Unstarted-1) * l.step)
}

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
	case Keeps(e.Line):
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
const maxAdmitted = 1000

// Tend applies events and gives free places to those who come next, at most 1,000 from the lines. Its cost depends neither on
// the number of buckets nor on that of waiting jobs.
func (g *Gate) Tend(events []GateEvents, s GateStore, now time.Time) (*GateResult, error) {
	t := &tending{gate: g, store: s, now: now, buckets: map[string]*Bucket{}, came: map[string][]*Entrant{}}
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
		t.buckets[b.Name] = b
	}
	return err
}

// apply applies the events to the buckets.
func (t *tending) apply(events []GateEvents) error {
	var names []string
	for i := range events {
		v := &events[i]
		names = slices.Concat(names, v.Freed, v.Dropped, v.Taken, v.Left, v.Started, v.Touched)
		for _, e := range v.Arrived {
			names = slices.Concat(names, e.Needs, e.Holds)
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
		t.buckets[name].start(t.limit(name), v.At)
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
		if Rated(name) {
			b.Unstarted--
		}
	}
	for _, name := range v.Left {
		t.buckets[name].Waiting--
	}
	for _, e := range v.Arrived {
		for _, name := range Without(e.Holds, e.Needs) {
			t.buckets[name].Held--
		}
		e.Holds = Without(e.Holds, Without(e.Holds, e.Needs))
		if len(e.Needs) == 0 {
			t.result.Admitted = append(t.result.Admitted, e)
			continue
		}
		t.came[e.Needs[0]] = append(t.came[e.Needs[0]], e)
	}
}

func (t *tending) limit(bucket string) *gateLimit {
	id, _ := splitBucket(bucket)
	return t.gate.byID[id]
}

// room returns how many more places a bucket can give, and whether it can give one to a job that has kept its own. A limit
// that is no longer in force gives none: its jobs pass the gate again.
func (t *tending) room(name string) (places int, again bool) {
	l, b := t.limit(name), t.buckets[name]
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
		if again && Keeps(name) {
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
	fresh := t.came[name]
	if len(fresh) > 0 {
		slices.SortFunc(line, (*Entrant).compare)
	}
	closed := false
	for _, e := range line {
		came := slices.Contains(fresh, e)
		obstacle := name
		if !closed {
			obstacle = t.obstacle(e)
		}
		switch {
		case obstacle == "":
			t.place(e, came)
		case came:
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
func (t *tending) place(e *Entrant, came bool) {
	if !came {
		t.buckets[e.Line].Waiting--
	}
	for _, name := range e.Needs {
		b := t.buckets[name]
		if !slices.Contains(e.Holds, name) {
			b.Held++
		}
		if Rated(name) {
			b.Unstarted++
		}
	}
	t.result.Admitted = append(t.result.Admitted, e)
}

// enter puts an entrant in a line.
func (t *tending) enter(e *Entrant, line string) {
	e.Line = line
	t.buckets[line].Waiting++
	t.result.Lined = append(t.result.Lined, e)
}

// Kept divides the places of a job that ended an attempt and will run again into those that it keeps and those that it frees.
func Kept(places []string) (kept, freed []string) {
	for _, name := range places {
		if Keeps(name) {
			kept = append(kept, name)
		} else {
			freed = append(freed, name)
		}
	}
	return kept, freed
}

// Without returns the names of a list that are not in another.
func Without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(other, name) })
}
