package audit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
)

// twins remembers the decisions, and the actions of guards, that came through the journal, because the observer is told of them right afterwards.
// Without an observer nobody asks for them: each shard keeps the latest only.
type twins struct {
	used   atomic.Bool // until the first Append there is nothing to look for
	shards [16]twinShard
}

type twinShard struct {
	mu     sync.Mutex
	counts map[twin]int // equal decisions of different work: a clock may stand still and an ID be used twice
	order  [256]twin    // ring, oldest at next
	next   int
}

// twin identifies a decision. A decision that the journal refused comes back with another verdict: that is no twin.
type twin struct {
	work    string
	seq     int
	time    int64
	verdict decision.Verdict
	action  observe.IdempotencyAction
}

func twinOf(o *observe.Event) twin {
	t := twin{work: o.Work.ID, seq: o.Seq, time: o.Time.UnixNano()}
	if o.Type == observe.Decided {
		t.verdict = o.Decision.Verdict
	} else {
		t.action = *o.Idempotency
	}
	return t
}

// paired reports whether an event comes through the journal and again through the observer.
func paired(o *observe.Event) bool { return o.Type == observe.Decided || o.Type == observe.Idempotent }

var twinSeed = maphash.MakeSeed()

func (t *twins) shard(work string) *twinShard {
	return &t.shards[maphash.String(twinSeed, work)%uint64(len(t.shards))]
}

// add remembers a decision.
func (t *twins) add(o *observe.Event) {
	if !paired(o) {
		return
	}
	t.used.Store(true)
	key := twinOf(o)
	s := t.shard(key.work)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[twin]int, len(s.order))
	}
	s.drop(s.order[s.next])
	s.order[s.next] = key
	s.next = (s.next + 1) % len(s.order)
	s.counts[key]++
}

// take reports whether a decision is remembered, and forgets it.
func (t *twins) take(o *observe.Event) bool {
	if !t.used.Load() {
		return false
	}
	key := twinOf(o)
	s := t.shard(key.work)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(key)
}

func (s *twinShard) drop(key twin) bool {
	n := s.counts[key]
	if n == 0 {
		return false
	}
	if s.counts[key]--; n == 1 {
		delete(s.counts, key)
	}
	return true
}
