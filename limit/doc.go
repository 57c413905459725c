// Package limit bounds the attempts of one key: how many run at a time (a bulkhead, fixed or adaptive) and how many start
// per period (a rate limit).
//
// # The model
//
// An attempt takes a place, waits for its turn in the rate, runs, and gives the place back:
//
//	if !limiter.TryEnter() {                    // a place, at once
//		w := limiter.Queue()                // or the last position in the line
//		<-w.Ready()                         // the caller bounds this wait, and leaves the line with w.Cancel()
//	}
//	turn, wait, ok := limiter.Turn(now, longest) // when the rate lets it start
//	...                                          // the caller sleeps for wait, or gives the turn back
//	change := limiter.Leave(result, took, now)   // exactly once for each place, however the attempt ended
//
// Places are handed over in the order of the line: while anybody waits, a new attempt cannot overtake. Turns are handed out
// in the order of requests.
//
// The rate is the generic cell rate algorithm (ITU-T I.371): turns are per/count apart, and burst of them may be taken at
// once after a pause. In any window of t, at most burst + t·count/per turns lie.
//
// # The adaptive limit
//
// The limit follows the gradient of latency, as in Netflix' concurrency-limits (GradientLimit, 2018): after each window the
// limit is multiplied by 1.5 · (latency without load) / (mean latency of the window), at most 1 and at least 0.5, and
// grows by its square root. The attempts above 1.5 times the capacity therefore meet the limit, not the other side. A
// window has at least 20 attempts and half a second. A limit of which less than half was used does not grow.
//
// The latency without load is the lowest mean of a window. A long overload would make this estimate stale or too high, so
// every 20 windows the limit, less its square root, is halved until 20 attempts have measured it anew, as BBR does with its
// ProbeRTT phase (Cardwell et al., BBR: Congestion-Based Congestion Control, 2016). Half of 1.5 times the capacity is less
// than the capacity, so the probe sees no queue, and estimates do not drift upwards from probe to probe. A probe that finds a
// latency more than a tenth lower is repeated after the next window.
//
// Only successes are measured. If a tenth of a window's attempts timed out, the limit is halved, since a latency that
// timeouts cut off says too little. Other failures do not count, because they are often faster than a success.
//
// A limiter of [NewShared] shares its places and turns with other processes: it holds leases of places, and lots of turns, which a
// sharing.Hub exchanges in the background.
//
// The caller supplies the time: `now` is a reading of a monotonic clock since an epoch of the caller's choice, which must be
// the same for all calls to a limiter. A limiter does not read a clock or start goroutines, and allocates only for those who
// wait in line.
package limit
