package cli

import (
	"errors"
	"slices"
)

// Closers collects what a command must close at its end. The zero value is empty.
type Closers struct{ list []func() error }

// OnClose adds a function that Close calls.
func (c *Closers) OnClose(f func() error) { c.list = append(c.list, f) }

// Close calls all functions, the last one first, and joins their errors.
func (c *Closers) Close() error {
	var faults []error
	for _, f := range slices.Backward(c.list) {
		faults = append(faults, f())
	}
	return errors.Join(faults...)
}
