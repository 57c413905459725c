package simulate

import (
	"iter"
	"math/bits"
	"time"

	"github.com/tenetdev/tenet/internal/virtual"
)

// world runs tasks in virtual time, one at a time: every wait is an event, and time moves on to the next event once no task can
// run. Tasks are coroutines, so that production code, which waits where it stands, runs in them as it is.
//
//	ready ──its turn──► running ──Await, park──► waiting ──its time has come, or it is woken──► ready
//	                       └──its work is done──► idle ──Go──► ready
type world struct {
	now     time.Duration
	events  heap
	ready   []*task // ready[turn:], in the order in which they will run
	turn    int
	running *task // nil while events are processed
	idle    []*task
	tasks   []*task
	waiting map[any][]*task // by the key that wakes them, in the order in which they began to wait
	ended   bool
	atEnd   []func() // called when the world has ended, before its tasks end

	end       time.Duration   // of the run
	done      int             // events processed
	interrupt <-chan struct{} // ends the run early; may be nil
	bounds    Bounds
	held      int  // about how many bytes the simulation holds, without its tasks
	tooLarge  bool // the run has ended early at one of the bounds
}

var _ virtual.World = (*world)(nil)

func newWorld() *world { return &world{waiting: map[any][]*task{}} }

// task is a coroutine. It works off one piece of work after another.
type task struct {
	world    *world
	run      func() (struct{}, bool)
	stop     func()
	yield    func(struct{}) bool
	work     func()
	seed     uint64      // of its call
	answered bool        // whether its latest request to a service has been answered
	response error       // to that request; nil for success
	timer    int         // slot of its timer among the events, plus 1; 0 for none
	queued   bool        // in ready
	able     func() bool // whether Wake resumes it
}

// actor is what happens at an event.
type actor interface{ act() }

// action is an event that calls a function.
type action func()

func (a action) act() { a() }

// run processes events before end, then ends all tasks.
func (w *world) run(end time.Duration) {
	w.end = end
	for w.settle(); w.advance() != nil; {
		w.settle()
	}
	w.now, w.ended = max(w.now, end), true
	for _, f := range w.atEnd {
		f()
	}
	for _, t := range w.tasks {
		if t.work != nil {
			w.resume(t)
		}
	}
	w.settle()
	for _, t := range w.tasks {
		t.stop()
	}
}

// advance processes events until a task is ready, and returns that task, or nil at the end of the run. A task that pauses calls it
// too: switching coroutines costs more than an event, and the task is often the next to run. A panic in an event goes up the stack of
// that task.
func (w *world) advance() *task {
	w.running = nil
	for w.turn == len(w.ready) {
		first := w.events.first()
		if first == nil || first.at >= w.end || w.ended || w.tooLarge || w.done%checkEvery == 0 && w.interrupted() {
			return nil
		}
		if w.tooLarge = w.bounds.reached(w.done, w.held+len(w.tasks)*taskSize); w.tooLarge {
			return nil
		}
		w.done++
		w.now = first.at
		w.events.take().act()
	}
	return w.ready[w.turn]
}

// About how many bytes a simulation holds for each of its parts, with a margin for the garbage collector.
const (
	taskSize    = 32 << 10 // its stack
	clientSize  = 16 << 10
	requestSize = 512 // that waits, or an unfinished job
	sampleSize  = 2 << 10
)

// checkEvery is how many events are processed between two looks at interrupt.
const checkEvery = 1 << 12

func (w *world) interrupted() bool {
	select {
	case <-w.interrupt:
		return true
	default:
		return false
	}
}

// settle runs tasks until none is ready.
func (w *world) settle() {
	for w.turn < len(w.ready) {
		w.begin().run()
	}
}

// begin makes the first ready task the running one.
func (w *world) begin() *task {
	t := w.ready[w.turn]
	if w.turn++; w.turn == len(w.ready) {
		w.ready, w.turn = w.ready[:0], 0
	}
	t.queued = false
	w.running = t
	return t
}

// at schedules an event.
func (w *world) at(when time.Duration, a actor) { w.events.push(when, a) }

// Now implements virtual.World.
func (w *world) Now() time.Duration { return w.now }

// Seed implements virtual.World.
func (w *world) Seed() uint64 { return w.running.seed }

// forever is a wait without a timer.
const forever = time.Duration(1 << 61)

// Await implements virtual.World. Once the world has ended, it only lets other tasks run.
func (w *world) Await(d time.Duration, key any, able func() bool) {
	t := w.running
	if able != nil && !w.ended {
		t.able = able
		w.waiting[key] = append(w.waiting[key], t)
		defer w.forget(key, t)
	}
	w.park(d)
}

// forget removes a task from those that wait for key.
func (w *world) forget(key any, t *task) {
	t.able = nil
	list := w.waiting[key]
	for i := range list {
		if list[i] != t {
			continue
		}
		if len(list) == 1 {
			delete(w.waiting, key)
		} else {
			w.waiting[key] = append(list[:i], list[i+1:]...)
		}
		return
	}
}

// Wake implements virtual.World.
func (w *world) Wake(key any) (woken int) {
	for _, t := range w.waiting[key] {
		if t.able != nil && t.able() {
			w.resume(t)
			woken++
		}
	}
	return woken
}

// Go implements virtual.World.
func (w *world) Go(work func()) {
	var t *task
	if n := len(w.idle); n > 0 {
		t, w.idle = w.idle[n-1], w.idle[:n-1]
	} else {
		t = &task{world: w}
		t.run, t.stop = iter.Pull(t.loop)
		w.tasks = append(w.tasks, t)
	}
	t.work = work
	w.resume(t)
}

// park suspends the running task for d, or until resume.
func (w *world) park(d time.Duration) {
	t := w.running
	switch {
	case w.ended:
		w.resume(t)
	case d < forever:
		t.timer = w.events.push(w.now+max(d, 0), t) + 1
	}
	t.pause()
}

// pause suspends the running task until its next turn. It returns false if the world has stopped the task.
func (t *task) pause() bool {
	if t.world.advance() == t {
		t.world.begin()
		return true
	}
	return t.yield(struct{}{})
}

// resume makes a waiting task ready, unless it is already.
func (w *world) resume(t *task) {
	if t.queued {
		return
	}
	if t.timer > 0 {
		w.events.remove(t.timer - 1)
		t.timer = 0
	}
	t.able, t.queued = nil, true
	w.ready = append(w.ready, t)
}

// act resumes the task at the end of its wait.
func (t *task) act() {
	t.timer = 0
	t.world.resume(t)
}

func (t *task) loop(yield func(struct{}) bool) {
	t.yield = yield
	for {
		t.work()
		t.work = nil
		t.world.idle = append(t.world.idle, t)
		if !t.pause() {
			return
		}
	}
}

// event is something that happens at a time.
type event struct {
	at    time.Duration
	order uint64 // among events of the same time
	slot  int    // of the actor
}

// earlier returns 1 if e is before o, else 0. It compares both fields with one borrowing subtraction, which avoids a branch that the
// processor cannot predict. Times are never negative.
func (e *event) earlier(o *event) int {
	_, borrow := bits.Sub64(e.order, o.order, 0)
	_, borrow = bits.Sub64(uint64(e.at), uint64(o.at), borrow)
	return int(borrow)
}

// heap is a binary heap of events. Any of them can be removed: most timers are, because their task is resumed before. The actors stand
// apart, in slots, so that moving an event moves no pointer.
type heap struct {
	list   []event
	vacant bool // the root has been taken; the next push fills its place, where the new event often belongs
	pushed uint64
	actors []actor // by slot
	places []int   // in list, by slot
	free   []int   // slots
}

// push adds an event, and returns its slot.
func (h *heap) push(at time.Duration, a actor) int {
	slot := len(h.actors)
	if n := len(h.free); n > 0 {
		slot, h.free = h.free[n-1], h.free[:n-1]
		h.actors[slot] = a
	} else {
		h.actors, h.places = append(h.actors, a), append(h.places, 0)
	}
	h.pushed++
	e := event{at: at, order: h.pushed, slot: slot}
	if h.vacant {
		h.vacant = false
		h.down(0, e)
	} else {
		h.list = append(h.list, e)
		h.up(len(h.list)-1, e)
	}
	return slot
}

// first returns the first event, or nil.
func (h *heap) first() *event {
	h.fill()
	if len(h.list) == 0 {
		return nil
	}
	return &h.list[0]
}

// take takes the first event out of the heap, and returns its actor. The first place must not be vacant: call first before.
func (h *heap) take() actor {
	h.vacant = true
	return h.release(h.list[0].slot)
}

// remove takes an event out of the heap.
func (h *heap) remove(slot int) {
	h.fill()
	h.release(slot)
	h.close(h.places[slot])
}

// release frees an event's slot and returns its actor. The event stays in the list.
func (h *heap) release(slot int) actor {
	a := h.actors[slot]
	h.actors[slot], h.free = nil, append(h.free, slot)
	return a
}

// fill closes the first place if it is vacant.
func (h *heap) fill() {
	if h.vacant {
		h.vacant = false
		h.close(0)
	}
}

// close fills a vacant place with the last event, and moves that up or down to where it belongs.
func (h *heap) close(i int) {
	last := len(h.list) - 1
	e := h.list[last]
	h.list = h.list[:last]
	switch {
	case i == last:
	case i > 0 && e.earlier(&h.list[(i-1)/2]) == 1:
		h.up(i, e)
	default:
		h.down(i, e)
	}
}

// up moves events down to make room for e, at a place or above.
func (h *heap) up(i int, e event) {
	for i > 0 {
		parent := (i - 1) / 2
		if e.earlier(&h.list[parent]) == 0 {
			break
		}
		h.put(i, h.list[parent])
		i = parent
	}
	h.put(i, e)
}

// down moves events up to make room for e, at a place or below.
func (h *heap) down(i int, e event) {
	for child := 2*i + 1; child < len(h.list); child = 2*i + 1 {
		if right := child + 1; right < len(h.list) {
			child += h.list[right].earlier(&h.list[child])
		}
		if h.list[child].earlier(&e) == 0 {
			break
		}
		h.put(i, h.list[child])
		i = child
	}
	h.put(i, e)
}

func (h *heap) put(i int, e event) { h.list[i], h.places[e.slot] = e, i }
