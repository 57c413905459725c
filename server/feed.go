package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

const (
	eventEvery   = time.Second     // how often the stores are looked at
	lookTime     = 5 * time.Second // bounds a look
	eventsAtOnce = 1000            // events that are read at a time
	readsAtOnce  = 10              // of them, in a look
	maxRing      = 4 << 20         // bytes of transitions kept for streams that are behind; older ones are read from the store
)

// topics are what a listener wants to know.
type topics struct{ stats, transitions, pulse bool }

// with returns these topics and others.
func (t topics) with(o topics) topics {
	return topics{t.stats || o.stats, t.transitions || o.transitions, t.pulse || o.pulse}
}

// feed looks at the stores once a second for all event streams, and not at all while nobody listens.
type feed struct {
	server *Server
	bell   wait.Bell   // rings after each look
	now    wait.Signal // asks for a look before its time

	mu      sync.Mutex // guards all below
	wanted  map[*topics]struct{}
	stop    context.CancelFunc // ends the looks; nil without listeners
	ended   chan struct{}      // closed when the looks have ended
	stats   map[string]job.QueueStats
	encoded map[string][]byte // stats for callers, by the queues that they are bound to; nil before the first look
	pulse   pulse
	recent  ring
	covered topics // what the last look has looked at
}

func newFeed(s *Server) *feed {
	return &feed{server: s, now: wait.NewSignal(), wanted: map[*topics]struct{}{}}
}

// listen makes the feed look at what a listener wants until the returned function is called. The channel receives after each
// look and is closed when ctx ends.
func (f *feed) listen(ctx context.Context, want topics) (looked <-chan struct{}, leave func()) {
	looked = f.bell.Listen(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted[&want] = struct{}{}
	if f.stop == nil {
		run, stop := context.WithCancel(context.WithoutCancel(ctx))
		before, ended := f.ended, make(chan struct{})
		f.stop, f.ended, f.encoded, f.covered = stop, ended, nil, want
		go func() {
			defer close(ended)
			if before != nil {
				<-before // one at a time
			}
			f.run(run)
		}()
	}
	if f.covered.with(want) != f.covered {
		f.now.Send()
	}
	return looked, func() {
		f.mu.Lock()
		delete(f.wanted, &want)
		if len(f.wanted) > 0 {
			f.mu.Unlock()
			return
		}
		f.stop()
		ended := f.ended
		f.stop = nil
		f.mu.Unlock()
		<-ended
	}
}

func (f *feed) run(ctx context.Context) {
	defer f.rest()
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		f.look(ctx)
		f.bell.Ring()
		select {
		case <-tick.C:
		case <-f.now:
		case <-ctx.Done():
		}
	}
}

// rest forgets the transitions: until somebody listens again, the log may grow by any number of events, or be restored.
func (f *feed) rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent.clear()
}

// look reads what anybody wants. While a store is away there is nothing new in it.
func (f *feed) look(ctx context.Context) {
	f.mu.Lock()
	var want topics
	for w := range f.wanted {
		want = want.with(*w)
	}
	next, recent := f.pulse, f.recent
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	stats, _, err := f.server.counters.get(ctx)
	if want.pulse {
		next.look(ctx, f.server, stats)
	}
	if want.transitions {
		recent.read(ctx, f.server.options.Audit)
	} else {
		recent.clear()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.stats, f.encoded = stats, map[string][]byte{}
	}
	f.pulse, f.recent, f.covered = next, recent, want
}

// counters returns the counters of the last look that a caller may see, in JSON, or nil if there was none yet.
func (f *feed) counters(who *caller) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.encoded == nil {
		return nil
	}
	bounds := fmt.Sprintf("%q", who.Queues)
	if raw, ok := f.encoded[bounds]; ok {
		return raw
	}
	raw, err := json.Marshal(api.NewStats(who.ofQueues(f.stats)))
	if err != nil {
		return nil // a map of numbers
	}
	f.encoded[bounds] = raw
	return raw
}

// beat returns the pulse of the last look; ok is false if there was none yet.
func (f *feed) beat() (p api.Pulse, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pulse.Pulse, f.pulse.begun
}

// after returns the recent transitions after a position, and the position up to which they reach. ok is false if the feed does
// not know all of them.
func (f *feed) after(position int64) (list []transition, to int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.recent.after(position)
}

// restored returns how often the log was found to be an older one, and where it ended then.
func (f *feed) restored() (times int, end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.recent.restored, f.recent.end
}

// transition is an event of the audit log as streams write it.
type transition struct {
	position int64
	text     []byte
}

// ring holds the transitions of a part of the audit log: those after one position up to another.
type ring struct {
	begun    bool
	from, to int64
	list     []transition // never changed in place: readers share it
	size     int
	restored int   // how often the log was found to end before to, as one restored from a backup does
	end      int64 // where it ended then
}

// clear makes the ring begin anew at the end of the log.
func (r *ring) clear() { *r = ring{restored: r.restored, end: r.end} }

func (r *ring) after(position int64) (list []transition, to int64, ok bool) {
	if !r.begun || position < r.from {
		return nil, position, false
	}
	list = r.list
	for len(list) > 0 && list[0].position <= position {
		list = list[1:]
	}
	return list, max(r.to, position), true
}

// read adds what is new in the log. The first time it only finds the log's end.
func (r *ring) read(ctx context.Context, source audit.Source) {
	if !r.begun {
		tail, err := audit.Tail(ctx, source)
		if err != nil {
			return
		}
		r.to, r.begun = positionOf(tail), true
		r.from = r.to
	}
	before := r.to
	for range readsAtOnce {
		n, err := eachTransition(ctx, source, r.to, func(t transition) {
			if r.to = t.position; t.text != nil {
				r.list, r.size = append(r.list, t), r.size+len(t.text)
			}
		})
		if err != nil || n < eventsAtOnce { // what was read before a failure counts
			break
		}
	}
	for r.size > maxRing {
		r.from, r.size = r.list[0].position, r.size-len(r.list[0].text)
		r.list = r.list[1:]
	}
	if tailer, ok := source.(audit.Tailer); ok && r.to == before {
		tail, err := tailer.Tail(ctx)
		if end := positionOf(tail); err == nil && end < r.to {
			*r = ring{begun: true, from: end, to: end, restored: r.restored + 1, end: end}
		}
	}
}

// eachTransition calls visit for at most eventsAtOnce events after a position, without a text for those that are no
// transitions, and returns how many there were.
func eachTransition(ctx context.Context, source audit.Source, after int64, visit func(transition)) (n int, err error) {
	err = source.Read(ctx, cursorOf(after), func(cursor string, line []byte) error {
		t := transition{position: positionOf(cursor)}
		if bytes.Contains(line, []byte(`"`+string(audit.JobTransition)+`"`)) {
			if e, err := audit.ParseLine(line); err == nil && e.Type == audit.JobTransition {
				t.text = eventText("transition", cursor, line)
			}
		}
		visit(t)
		if n++; n == eventsAtOnce {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return n, nil
	}
	return n, err
}

// positionOf returns the place of a line: the cursors of stores are numbers.
func positionOf(cursor string) int64 {
	n, _ := strconv.ParseInt(cursor, 10, 64)
	return n
}

func cursorOf(position int64) string {
	if position == 0 {
		return ""
	}
	return strconv.FormatInt(position, 10)
}
