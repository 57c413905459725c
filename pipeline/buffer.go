package pipeline

import "slices"

// buffer holds the fetched deliveries that no worker has taken, and never lets two deliveries of one ID run at the same time.
// run.mu guards it.
//
//	        the ID is free
//	ready ─────────────────► take ──► the ID runs ──► release ──► the ID is free
//	  │ the ID runs            ▲                         │ more of it are held
//	  └─────► held ────────► freed ◄─────────────────────┘
type buffer struct {
	ready   []Delivery
	freed   []Delivery            // formerly held; taken before ready
	held    map[string][]Delivery // by ID
	holding int                   // deliveries in held
	running map[string]struct{}   // IDs
}

func newBuffer() buffer {
	return buffer{held: map[string][]Delivery{}, running: map[string]struct{}{}}
}

// put adds deliveries and takes ownership of the slice.
func (b *buffer) put(list []Delivery) {
	if len(b.ready) == 0 {
		b.ready = list
	} else {
		b.ready = append(b.ready, list...)
	}
}

// take returns the next delivery whose ID does not run.
func (b *buffer) take() (Delivery, bool) {
	if len(b.freed) > 0 {
		d := b.freed[0]
		b.freed = b.freed[1:]
		b.running[d.Transaction.id] = struct{}{}
		return d, true
	}
	for len(b.ready) > 0 {
		d := b.ready[0]
		b.ready = b.ready[1:]
		id := d.Transaction.id
		if _, runs := b.running[id]; !runs {
			b.running[id] = struct{}{}
			return d, true
		}
		b.held[id] = append(b.held[id], d)
		b.holding++
	}
	return Delivery{}, false
}

// release marks an ID as not running, and reports whether that frees a held delivery of the same ID.
func (b *buffer) release(id string) (freed bool) {
	delete(b.running, id)
	if b.holding == 0 {
		return false
	}
	list := b.held[id]
	if len(list) == 0 {
		return false
	}
	b.freed = append(b.freed, list[0])
	if b.holding--; len(list) == 1 {
		delete(b.held, id)
	} else {
		b.held[id] = list[1:]
	}
	return true
}

// waiting counts the deliveries that a worker could look at, without those whose ID is known to run.
func (b *buffer) waiting() int { return len(b.ready) + len(b.freed) }

// all lists every delivery in the buffer.
func (b *buffer) all() []Delivery {
	list := slices.Concat(b.freed, b.ready)
	for _, held := range b.held {
		list = append(list, held...)
	}
	return list
}

// clear empties the buffer, but keeps the running IDs.
func (b *buffer) clear() {
	b.ready, b.freed, b.holding = nil, nil, 0
	clear(b.held)
}
