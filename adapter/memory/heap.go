package memory

import (
	"container/heap"
	"time"
)

// pile is a heap of entries that know their index, so that any of them can be removed.
type pile struct {
	entries []*entry
	before  func(a, b *entry) bool
}

func newPile(before func(a, b *entry) bool) *pile { return &pile{before: before} }

// first returns the first entry in order, or nil.
func (p *pile) first() *entry {
	if len(p.entries) == 0 {
		return nil
	}
	return p.entries[0]
}

func (p *pile) add(e *entry) {
	e.pile = p
	heap.Push(p, e)
}

func (p *pile) remove(e *entry) {
	heap.Remove(p, e.index)
	e.pile = nil
}

// Len, Less, Swap, Push and Pop implement heap.Interface.

func (p *pile) Len() int           { return len(p.entries) }
func (p *pile) Less(i, j int) bool { return p.before(p.entries[i], p.entries[j]) }

func (p *pile) Swap(i, j int) {
	p.entries[i], p.entries[j] = p.entries[j], p.entries[i]
	p.entries[i].index, p.entries[j].index = i, j
}

func (p *pile) Push(x any) {
	e := x.(*entry)
	e.index = len(p.entries)
	p.entries = append(p.entries, e)
}

func (p *pile) Pop() any {
	last := len(p.entries) - 1
	e := p.entries[last]
	p.entries[last] = nil
	p.entries = p.entries[:last]
	return e
}

// timed is a value whose time comes.
type timed[T any] struct {
	at    time.Time
	value T
}

// timeHeap is a heap of values, the earliest first.
type timeHeap[T any] []timed[T]

func (h timeHeap[T]) Len() int           { return len(h) }
func (h timeHeap[T]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timeHeap[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timeHeap[T]) Push(x any)        { *h = append(*h, x.(timed[T])) }

func (h *timeHeap[T]) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
