package classify

import (
	"errors"
	"time"
)

// Mark is what an error says about itself. Marks are found through wrapping; the outermost one counts.
type Mark uint8

// The marks.
const (
	Unmarked      Mark = iota
	MarkPermanent      // never retry
	MarkBusiness       // never retry; the other side is well
	MarkAfter          // retry, but not before a wait
)

// marked is an error with a mark. Its text is that of the error inside.
type marked struct {
	err      error
	mark     Mark
	pushback time.Duration
}

func (m *marked) Error() string { return m.err.Error() }
func (m *marked) Unwrap() error { return m.err }

// Permanent marks err as not worth repeating. Permanent(nil) is nil.
func Permanent(err error) error { return wrap(err, MarkPermanent, 0) }

// Unrecoverable is [Permanent] under the name that job systems use.
func Unrecoverable(err error) error { return Permanent(err) }

// Business marks err as an answer of the domain (unknown customer, insufficient funds): it is not repeated and no
// breaker counts it as a failure. Business(nil) is nil.
func Business(err error) error { return wrap(err, MarkBusiness, 0) }

// After marks err with the wait that the other side asked for. The retry starts no earlier, and not at all if the wait is
// longer than the policy's max_pushback. Negative waits count as 0. After(nil, d) is nil.
func After(err error, d time.Duration) error { return wrap(err, MarkAfter, max(d, 0)) }

func wrap(err error, mark Mark, pushback time.Duration) error {
	if err == nil {
		return nil
	}
	return &marked{err: err, mark: mark, pushback: pushback}
}

// MarkOf returns the outermost mark in err's tree, and the wait that comes with [MarkAfter].
func MarkOf(err error) (Mark, time.Duration) {
	m, ok := errors.AsType[*marked](err)
	if !ok {
		return Unmarked, 0
	}
	return m.mark, m.pushback
}
