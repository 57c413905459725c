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

// uniques are the held keys. Windows outlive their jobs.
type uniques struct {
	holders map[uniqueKey]holder
	windows timeHeap[uniqueKey] // the ends of holders' times; stale once the holder has been replaced
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
		heap.Push(&u.windows, timed[uniqueKey]{h.until, key})
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
	for len(u.windows) > 0 && !now.Before(u.windows[0].at) {
		w := heap.Pop(&u.windows).(timed[uniqueKey])
		if h, held := u.holders[w.value]; held && h.until.Equal(w.at) {
			delete(u.holders, w.value)
		}
	}
}
