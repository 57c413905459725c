package memory

import (
	"container/heap"
	"time"
)

// uniqueKey is a key within its queue.
type uniqueKey struct{ queue, key string }

// holder is the job that holds a key: until a time or, if that is zero, until the job ends.
type holder struct {
	id    string
	until time.Time
}

// window is the end of a holder's time. It is stale once the holder has been replaced.
type window struct {
	key   uniqueKey
	until time.Time
}

// uniques are the held keys. Windows outlive their jobs.
type uniques struct {
	holders map[uniqueKey]holder
	windows windowHeap
}

// holder returns the ID of the job that holds a key at now.
func (u *uniques) holder(key uniqueKey, now time.Time) (string, bool) {
	h, held := u.holders[key]
	if !held || !h.until.IsZero() && !now.Before(h.until) {
		return "", false
	}
	return h.id, true
}

// hold gives a free key to a job, for d or, if d is 0, until the job ends.
func (u *uniques) hold(key uniqueKey, id string, d time.Duration, now time.Time) {
	h := holder{id: id}
	if d > 0 {
		h.until = now.Add(d)
		heap.Push(&u.windows, window{key: key, until: h.until})
	}
	u.holders[key] = h
}

// release frees the key of a job that has ended, unless a window holds it.
func (u *uniques) release(key uniqueKey, id string) {
	if h := u.holders[key]; h.id == id && h.until.IsZero() {
		delete(u.holders, key)
	}
}

// expire removes windows that have ended.
func (u *uniques) expire(now time.Time) {
	for len(u.windows) > 0 && !now.Before(u.windows[0].until) {
		w := heap.Pop(&u.windows).(window)
		if h, held := u.holders[w.key]; held && h.until.Equal(w.until) {
			delete(u.holders, w.key)
		}
	}
}

type windowHeap []window

func (h windowHeap) Len() int           { return len(h) }
func (h windowHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h windowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *windowHeap) Push(x any)        { *h = append(*h, x.(window)) }

func (h *windowHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	*h = (*h)[:last]
	return w
}
