package retry

import (
	"container/list"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/hedge"
	"github.com/tenetdev/tenet/limit"
	"github.com/tenetdev/tenet/policy"
)

// keyState is the state of a key that outlives changes of its policy.
type keyState struct {
	key     policy.Key
	plan    atomic.Pointer[plan]
	breaker *circuit.Breaker // like the next three fields, made when first needed and guarded by Executor.mu; plans have copies
	digest  *hedge.Digest
	load    *hedge.Load
	limiter *limit.Limiter

	trial atomic.Pointer[trial] // nil without a policy under trial

	next  atomic.Pointer[keyState] // in its bucket
	order *list.Element            // in the table's order; guarded by the table's mu
}

// keyTable keeps the states of a bounded number of keys and finds them without a lock. Once it is full, a new key evicts
// the least recently used one, in constant time. Only a full table tracks uses, which takes a lock; before, keys are in the
// order in which they were added.
type keyTable struct {
	quick   [64]atomic.Pointer[keyState] // those that can be found without hashing; none once the table is full
	buckets []atomic.Pointer[keyState]
	seed    maphash.Seed
	limit   int
	full    atomic.Bool
	latest  atomic.Pointer[keyState] // the first in order, once the table is full

	mu    sync.Mutex // guards order, and writes to the fields above
	order *list.List // of *keyState, the most recently used first
}

// maxBuckets bounds the table of an executor that keeps very many keys.
const maxBuckets = 1 << 16

func newKeyTable(limit int) keyTable {
	size := 1 << bits.Len(uint(min(limit, maxBuckets)-1))
	return keyTable{buckets: make([]atomic.Pointer[keyState], size), seed: maphash.MakeSeed(), limit: limit, order: list.New()}
}

// get returns the state of a key, or nil.
func (t *keyTable) get(key policy.Key) *keyState {
	if s := t.quick[slot(key)].Load(); s != nil && s.key == key {
		return s
	}
	s := t.bucket(key).Load()
	for s != nil && s.key != key {
		s = s.next.Load()
	}
	if s != nil && t.full.Load() && t.latest.Load() != s {
		t.use(s)
	}
	return s
}

// use puts a state first in order, unless it has been dropped.
func (t *keyTable) use(s *keyState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.order.MoveToFront(s.order)
	t.latest.Store(s)
}

// add adds the state of a new key, and reports whether it evicted another one.
func (t *keyTable) add(s *keyState) (evicted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if evicted = t.order.Len() >= t.limit; evicted {
		last := t.order.Remove(t.order.Back()).(*keyState)
		t.drop(last)
		last.leave()
	}
	s.order = t.order.PushFront(s)
	t.latest.Store(s)
	first := t.bucket(s.key)
	s.next.Store(first.Load())
	first.Store(s)
	switch {
	case evicted:
	case t.order.Len() < t.limit:
		t.quick[slot(s.key)].CompareAndSwap(nil, s)
	default: // from here on every use counts
		t.full.Store(true)
		for i := range t.quick {
			t.quick[i].Store(nil)
		}
	}
	return evicted
}

// drop removes a state from its bucket. A concurrent reader of the state still finds the rest of the bucket.
func (t *keyTable) drop(s *keyState) {
	at := t.bucket(s.key)
	for at.Load() != s {
		at = &at.Load().next
	}
	at.Store(s.next.Load())
}

func (t *keyTable) bucket(key policy.Key) *atomic.Pointer[keyState] {
	buckets := t.buckets
	if len(buckets) == 0 { // costs nothing: it replaces the bounds check of the index below
		panic("retry: the executor is a zero Executor: create it with New or NewExecutor")
	}
	h := maphash.String(t.seed, key.Namespace)*31 + maphash.String(t.seed, key.Name)
	return &buckets[h&uint64(len(buckets)-1)]
}

// slot returns a key's index in quick. It only has to spread keys, at a fraction of the cost of a hash.
func slot(key policy.Key) uint {
	h := 5*uint(len(key.Namespace)) + uint(len(key.Name))
	if n := len(key.Name); n > 0 {
		h += uint(key.Name[0]) + 3*uint(key.Name[n/2]) + 7*uint(key.Name[n-1])
	}
	return h % 64
}
