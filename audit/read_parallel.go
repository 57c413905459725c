package audit

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
)

// The size of a batch is large enough to make passing it on cheap, and small enough to keep all cores busy and memory low.
const (
	batchLines = 512
	batchBytes = 512 << 10
)

// batch holds consecutive lines of a source and the result of parsing each.
type batch[T any] struct {
	first int // index of the first line in the source
	text  []byte
	ends  []int // of the lines in text
	made  []T
	done  chan struct{} // receives a value when made is complete
}

func (b *batch[T]) line(i int) []byte {
	start := 0
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.text[start:b.ends[i]]
}

func (b *batch[T]) full() bool { return len(b.ends) >= batchLines || len(b.text) >= batchBytes }

// readParallel reads a source to its end. It calls parse for each batch, on all cores at once; worker is the number of the
// calling goroutine, from 0. It calls take for one batch at a time, in the order of the source; an error ends the reading. The
// number of batches is fixed, so memory does not grow with the source.
func readParallel[T any](ctx context.Context, s Source, parse func(worker int, b *batch[T]), take func(b *batch[T]) error) error {
	if err := readable(ctx, s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := runtime.GOMAXPROCS(0)
	n := 4 * workers
	free, work, inOrder := make(chan *batch[T], n), make(chan *batch[T], n), make(chan *batch[T], n)
	for range n {
		free <- &batch[T]{done: make(chan struct{}, 1)}
	}
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for b := range work {
				parse(worker, b)
				b.done <- struct{}{}
			}
		})
	}
	all.Go(func() {
		for b := range inOrder {
			<-b.done
			if context.Cause(ctx) == nil {
				if err := take(b); err != nil {
					cancel(err)
				}
			}
			b.text, b.ends, b.made = b.text[:0], b.ends[:0], b.made[:0]
			free <- b
		}
	})
	err := fillBatches(ctx, s, free, func(b *batch[T]) {
		work <- b
		inOrder <- b
	})
	close(work)
	close(inOrder)
	all.Wait()
	return cmp.Or(context.Cause(ctx), err)
}

// fillBatches copies the lines of a source into free batches and passes each to send.
func fillBatches[T any](ctx context.Context, s Source, free <-chan *batch[T], send func(*batch[T])) error {
	var b *batch[T]
	index := 0
	err := s.Read(ctx, "", func(_ string, line []byte) error {
		if b == nil {
			b = <-free // the goroutine that calls take returns every batch
			b.first = index
		}
		b.text = append(b.text, line...)
		b.ends = append(b.ends, len(b.text))
		index++
		if !b.full() {
			return nil
		}
		send(b)
		b = nil
		return context.Cause(ctx)
	})
	if b != nil {
		send(b)
	}
	return err
}

// readable returns an error if the context or the source is nil.
func readable(ctx context.Context, s Source) error {
	switch {
	case ctx == nil:
		return errors.New("the context is nil")
	case s == nil:
		return errors.New("the source is nil")
	}
	return nil
}
