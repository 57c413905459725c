package circuit

import "time"

const buckets = 10

// window counts attempts over a sliding time. It is a ring of buckets, each for a tenth of the time: bucket n counts the
// attempts from n·width to (n+1)·width and is ring[n mod 10]. The breaker's mutex guards it.
//
// Attempts that were not bad arrive with a delay: a striped counter counts them, and its gain is added before the newest bucket
// ends.
type window struct {
	width   time.Duration // of a bucket
	newest  int64         // its number
	ring    [buckets]tally
	total   tally  // of the ring
	counter uint64 // what the striped counter stood at when its gain was last taken over
}

type tally struct{ calls, bad uint64 }

// clear drops all counts, and sets the striped counter's current value as the new base.
func (w *window) clear(counter uint64) {
	w.ring, w.total = [buckets]tally{}, tally{}
	w.newest = -buckets // the first moveTo finds everything expired
	w.counter = counter
}

// resize gives the window another length. All of its counts move into the bucket of the time when it was last used.
func (w *window) resize(length time.Duration) {
	last := time.Duration(max(w.newest, 0)) * w.width
	w.width = max(length/buckets, 1)
	w.newest = int64(last / w.width)
	w.ring = [buckets]tally{}
	*w.bucket(w.newest) = w.total
}

// take adds the gain of the striped counter.
func (w *window) take(counter uint64) {
	w.add(tally{calls: counter - w.counter})
	w.counter = counter
}

func (w *window) addBad() { w.add(tally{calls: 1, bad: 1}) }

func (w *window) add(t tally) {
	b := w.bucket(w.newest)
	b.calls += t.calls
	b.bad += t.bad
	w.total.calls += t.calls
	w.total.bad += t.bad
}

// moveTo makes the bucket of now the newest, drops those that have expired, and returns when the newest ends. Time does
// not go back: an attempt that read the clock before another and comes after it counts in the other's bucket.
func (w *window) moveTo(now time.Duration) (end time.Duration) {
	n := max(int64(now/w.width), w.newest, 0)
	for range min(n-w.newest, buckets) {
		w.newest++
		w.drop(w.bucket(w.newest))
	}
	w.newest = n
	return time.Duration(n+1) * w.width
}

func (w *window) drop(b *tally) {
	w.total.calls -= b.calls
	w.total.bad -= b.bad
	*b = tally{}
}

func (w *window) bucket(n int64) *tally { return &w.ring[(n+buckets)%buckets] }
