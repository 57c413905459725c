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
	ready   []*task // in the order in which they will run
	running *task
	idle    []*task
	tasks   []*task
	waiting map[any][]*task // by the key that wakes them, in the order in which they began to wait
	ended   bool
	atEnd   []func() // called when the world has ended, before its tasks end

	interrupt <-chan struct{} // ends the run early; may be nil
	bounds    Bounds
	held      int  // about how many bytes the simulation holds, without its tasks
	tooLarge  bool // the run has ended early at one of the bounds
}

var _ virtual.World = (*world)(nil)

func newWorld() *world { return &world{waiting: map[any][]*task{}} }

// task is a coroutine. It works off one piece of work after another.
type task struct {
	world  *world
	run    func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	work   func()
	seed   uint64      // of its call
	timer  int         // slot of its timer among the events, plus 1; 0 for none
	queued bool        // in ready
	able   func() bool // whether Wake resumes it
}

// actor is what happens at an event.
type actor interface{ act() }

// action is an event that calls a function.
type action func()

func (a action) act() { a() }

// run works off events before end, then ends all tasks.
func (w *world) run(end time.Duration) {
	w.settle()
	for n := 0; len(w.events.list) > 0 && w.events.list[0].at < end; n++ {
		if n%checkEvery == 0 && w.interrupted() {
			break
		}
		if w.tooLarge = w.bounds.reached(n, w.held+len(w.tasks)*taskSize); w.tooLarge {
			break
		}
		w.now = w.events.list[0].at
		w.events.remove(w.events.list[0].slot).act()
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

// About how many bytes a simulation holds for each of its parts, with a margin for the garbage collector.
const (
	taskSize    = 32 << 10 // its stack
	clientSize  = 16 << 10
	requestSize = 512 // that waits, or an unfinished job
	sampleSize  = 2 << 10
)

// checkEvery is how many events are worked off between two looks at interrupt.
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
	for i := 0; i < len(w.ready); i++ { //nolint:intrange // tasks make others ready
		w.running = w.ready[i]
		w.running.queued = false
		w.running.run()
	}
	w.running, w.ready = nil, w.ready[:0]
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
	t.yield(struct{}{})
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
		if !yield(struct{}{}) {
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

// earlier returns 1 if e is before o, else 0. It compares both fields in one subtraction, without a branch that the processor could
// not predict.
func (e *event) earlier(o *event) int {
	_, borrow := bits.Sub64(e.order, o.order, 0)
	_, borrow = bits.Sub64(uint64(e.at), uint64(o.at), borrow)
	return int(borrow)
}

// heap is a binary heap of events. Any of them can be removed: most timers are, because their task is resumed before. The actors stand
// apart, in slots, so that moving an event moves no pointer.
type heap struct {
	list   []event
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
	h.list = append(h.list, event{})
	h.up(len(h.list)-1, event{at: at, order: h.pushed, slot: slot})
	return slot
}

// remove takes an event out of the heap, and returns its actor.
func (h *heap) remove(slot int) actor {
	a, i, last := h.actors[slot], h.places[slot], len(h.list)-1
	h.actors[slot], h.free = nil, append(h.free, slot)
	e := h.list[last]
	h.list = h.list[:last]
	if i < last {
		h.up(h.down(i), e)
	}
	return a
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

// down moves the earlier child of a free place up, and so on down to a leaf, which it returns: the event that comes into the free
// place was the last, so that it seldom rises from there.
func (h *heap) down(i int) int {
	for child := 2*i + 1; child < len(h.list); child = 2*i + 1 {
		if right := child + 1; right < len(h.list) {
			child += h.list[right].earlier(&h.list[child])
		}
		h.put(i, h.list[child])
		i = child
	}
	return i
}

func (h *heap) put(i int, e event) { h.list[i], h.places[e.slot] = e, i }
