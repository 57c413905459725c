package simulate

import (
	"iter"
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
	turn   uint64      // grows whenever the task becomes ready: a timer set before that is void
	queued bool        // in ready
	able   func() bool // whether Wake resumes it
}

// actor is what happens at an event.
type actor interface{ act(turn uint64) }

// action is an event that calls a function.
type action func()

func (a action) act(uint64) { a() }

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
		e := w.events.pop()
		w.now = e.at
		e.actor.act(e.turn)
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
func (w *world) at(when time.Duration, a actor, turn uint64) {
	w.events.push(event{at: when, turn: turn, actor: a})
}

// Now implements virtual.World.
func (w *world) Now() time.Duration { return w.now }

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
		w.at(w.now+max(d, 0), t, t.turn)
	}
	t.yield(struct{}{})
}

// resume makes a waiting task ready, unless it is already.
func (w *world) resume(t *task) {
	if t.queued {
		return
	}
	t.turn++
	t.able, t.queued = nil, true
	w.ready = append(w.ready, t)
}

// act resumes the task at the end of its wait, if it still waits.
func (t *task) act(turn uint64) {
	if t.turn == turn {
		t.world.resume(t)
	}
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
	turn  uint64
	actor actor
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.order < o.order }

// heap is a binary heap of events.
type heap struct {
	list   []event
	pushed uint64
}

func (h *heap) push(e event) {
	h.pushed++
	e.order = h.pushed
	h.list = append(h.list, e)
	i := len(h.list) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(&h.list[parent]) {
			break
		}
		h.list[i] = h.list[parent]
		i = parent
	}
	h.list[i] = e
}

func (h *heap) pop() event {
	first, last := h.list[0], len(h.list)-1
	e := h.list[last]
	h.list[last] = event{}
	h.list = h.list[:last]
	if last == 0 {
		return first
	}
	i := 0
	for child := 1; child < last; child = 2*i + 1 {
		if right := child + 1; right < last && h.list[right].before(&h.list[child]) {
			child = right
		}
		if !h.list[child].before(&e) {
			break
		}
		h.list[i] = h.list[child]
		i = child
	}
	h.list[i] = e
	return first
}
