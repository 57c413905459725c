package groupcommit

import "sync/atomic"

// Ticket is held by a caller that waits until its operation is stored, and by the writer that stores it.
//
//	waiting ──Take──────► taken: the writer stores the operation, and settles the ticket
//	waiting ──Withdraw──► withdrawn: the caller gave up, and the writer drops the operation
type Ticket struct {
	state atomic.Int32
	done  chan error
}

const (
	waiting int32 = iota
	taken
	withdrawn
)

// NewTicket returns a ticket that waits.
func NewTicket() *Ticket { return &Ticket{done: make(chan error, 1)} }

// Take is for the writer. It reports false if the caller has withdrawn.
func (t *Ticket) Take() bool { return t.state.CompareAndSwap(waiting, taken) }

// Taken reports whether the writer has taken the operation.
func (t *Ticket) Taken() bool { return t.state.Load() == taken }

// Withdraw is for the caller. It reports false if the writer has taken the operation, which may then be stored.
func (t *Ticket) Withdraw() bool { return t.state.CompareAndSwap(waiting, withdrawn) }

// Withdrawn reports whether the caller has withdrawn.
func (t *Ticket) Withdrawn() bool { return t.state.Load() == withdrawn }

// Settle is for the writer, once: it tells the caller what became of the operation. It never blocks.
func (t *Ticket) Settle(err error) { t.done <- err }

// Done returns the channel that receives the one answer of Settle.
func (t *Ticket) Done() <-chan error { return t.done }
