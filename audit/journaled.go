package audit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
)

// journaled remembers the events that came through the journal, because the observer receives the same events right after
// it. Without an observer nothing removes them, so each shard keeps only the latest.
type journaled struct {
	used   atomic.Bool // false until the first Append, so that take has nothing to look for
	shards [16]journaledShard
}

type journaledShard struct {
	mu     sync.Mutex
	counts map[eventKey]int // more than 1 where different work has the same ID and time
	order  [256]eventKey    // ring, oldest at next
	next   int
}

// eventKey identifies an event. A decision that the journal refused reaches the observer with another verdict, and so has
// another key.
type eventKey struct {
	work    string
	seq     int
	time    int64
	verdict decision.Verdict
	action  observe.IdempotencyAction
}

func eventKeyOf(o *observe.Event) eventKey {
	t := eventKey{work: o.Work.ID, seq: o.Seq, time: o.Time.UnixNano()}
	if o.Type == observe.Decided {
		t.verdict = o.Decision.Verdict
	} else {
		t.action = *o.Idempotency
	}
	return t
}

// paired reports whether an event comes through the journal and again through the observer.
func paired(o *observe.Event) bool { return o.Type == observe.Decided || o.Type == observe.Idempotent }

var journaledSeed = maphash.MakeSeed()

func (j *journaled) shard(work string) *journaledShard {
	return &j.shards[maphash.String(journaledSeed, work)%uint64(len(j.shards))]
}

// add remembers an event.
func (j *journaled) add(o *observe.Event) {
	if !paired(o) {
		return
	}
	j.used.Store(true)
	key := eventKeyOf(o)
	s := j.shard(key.work)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[eventKey]int, len(s.order))
	}
	s.drop(s.order[s.next])
	s.order[s.next] = key
	s.next = (s.next + 1) % len(s.order)
	s.counts[key]++
}

// take reports whether an event is remembered, and forgets it.
func (j *journaled) take(o *observe.Event) bool {
	if !j.used.Load() {
		return false
	}
	key := eventKeyOf(o)
	s := j.shard(key.work)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(key)
}

func (s *journaledShard) drop(key eventKey) bool {
	n := s.counts[key]
	if n == 0 {
		return false
	}
	if s.counts[key]--; n == 1 {
		delete(s.counts, key)
	}
	return true
}
