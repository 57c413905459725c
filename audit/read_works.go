package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/policy"
)

const (
	// partitions is the number of parts into which a log is split by work. One part per core must fit into memory; with 10
	// million events a part takes about 6 MiB.
	partitions = 256
	// chunkBytes is how much of a partition a goroutine gathers before it passes it to the store.
	chunkBytes = 32 << 10
	// defaultMemory holds about 400,000 packed events.
	defaultMemory = 64 << 20
)

// Spill says where events are kept while a log is being read. [Replay], [WhatIf] and [Statistics] need all events of a piece
// of work together, but a log holds them in any order.
type Spill struct {
	// Memory is how many bytes of packed events are kept in memory; the rest goes to a temporary file. An event takes about
	// 160 bytes. 0 means 64 MiB.
	Memory int64
	// Dir is the directory of the temporary file, which is removed before the call returns. "" means the system's.
	Dir string
}

// works holds the events of a log, packed and partitioned by work.
type works struct {
	symbols  symbols
	hash     maphash.Seed
	store    chunkStore
	total    gathered
	mu       sync.Mutex
	policies map[string][]byte // JSON by revision
}

// gathered holds the counts of a log.
type gathered struct{ lines, unreadable, duplicates int }

// gather reads the events of a source for which want returns true. The caller passes the result to visitWorks.
func gather(ctx context.Context, s Source, o Spill, want func(e *Event) bool) (*works, error) {
	o.Memory = cmp.Or(max(o.Memory, 0), defaultMemory)
	w := &works{
		symbols: symbols{numbers: map[string]uint64{}}, hash: maphash.MakeSeed(), policies: map[string][]byte{},
		store: chunkStore{limit: o.Memory, dir: o.Dir},
	}
	workers := make([]*gatherer, runtime.GOMAXPROCS(0))
	for i := range workers {
		workers[i] = &gatherer{works: w, want: want}
		workers[i].reader.intern = interner{&w.symbols, map[string]interned{}}
		workers[i].pack.intern = &workers[i].reader.intern
	}
	err := readParallel(ctx, s, func(worker int, b *batch[struct{}]) {
		for i := range b.ends {
			workers[worker].take(b.line(i))
		}
	}, func(b *batch[struct{}]) error {
		w.total.lines += len(b.ends)
		return w.store.failed()
	})
	for _, g := range workers {
		for i := range g.buckets {
			g.flush(i)
		}
		w.total.unreadable += g.unreadable
	}
	if err = errors.Join(err, w.store.failed()); err != nil {
		return nil, errors.Join(err, w.store.close())
	}
	return w, nil
}

// gatherer is the state of one of the goroutines of gather.
type gatherer struct {
	works      *works
	want       func(e *Event) bool
	reader     eventReader
	pack, body packer
	buckets    [partitions][]byte
	unreadable int
}

func (g *gatherer) take(line []byte) {
	x := &g.reader
	if !x.read(line) {
		g.unreadable++
		return
	}
	if x.e.Policy != nil {
		g.works.keepPolicy(x.e.PolicyRevision, x.e.Policy)
	}
	if !g.want(&x.e) {
		return
	}
	g.body.buf, g.body.intern = g.body.buf[:0], &x.intern
	g.body.event(&x.e)
	entry := packed{work: x.codec.work, id: x.codec.id, seq: x.e.WorkSeq, time: x.e.Time.UnixMicro(), body: g.body.buf}
	key := entry.work
	if len(key) == 0 {
		key = entry.id
	}
	i := int(maphash.Bytes(g.works.hash, key) % partitions)
	g.pack.buf = g.buckets[i]
	g.pack.entry(&entry)
	g.buckets[i] = g.pack.buf
	if len(g.buckets[i]) >= chunkBytes {
		g.flush(i)
	}
}

func (g *gatherer) flush(i int) {
	if len(g.buckets[i]) > 0 {
		g.works.store.add(i, g.buckets[i])
		g.buckets[i] = g.buckets[i][:0]
	}
}

// keepPolicy keeps the snapshot of a revision. Of two different snapshots it keeps the smaller text, so that the order does
// not matter.
func (w *works) keepPolicy(revision string, raw []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.policies[revision]; !ok || bytes.Compare(raw, known) < 0 {
		w.policies[revision] = bytes.Clone(raw)
	}
}

// snapshots returns the policies of the log by revision. It leaves out snapshots that cannot be read or do not match their
// revision's hash. It accepts revisions that are not hashes, because providers may name revisions as they like.
func (w *works) snapshots() map[string]*policy.Policy {
	out := map[string]*policy.Policy{}
	for revision, raw := range w.policies {
		var want digest
		if parseDigest(&want, []byte(revision)) && sha256.Sum256(raw) != want {
			continue
		}
		e := Event{PolicyRevision: revision, Policy: json.RawMessage(raw)}
		if p, err := e.Snapshot(); err == nil {
			out[revision] = p
		}
	}
	return out
}

// visitWorks calls visit with the sorted events of each piece of work, on all cores at once, and closes w. Each goroutine has a
// state of its own, which begin makes; visitWorks returns them. An event without a work is visited by itself. The events are valid
// until visit returns.
func visitWorks[T any](ctx context.Context, w *works, begin func() T, visit func(state T, events []Event)) ([]T, error) {
	var all sync.WaitGroup
	var next, repeated atomic.Int64
	states := make([]T, runtime.GOMAXPROCS(0))
	failures := make([]error, len(states))
	for worker := range states {
		states[worker] = begin()
		all.Go(func() {
			v := visitor{body: packer{reading: true, names: w.symbols.names}}
			for failures[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= partitions || ctx.Err() != nil {
					break
				}
				v.data, failures[worker] = w.store.load(i, v.data[:0])
				if failures[worker] == nil {
					v.visit(func(events []Event) { visit(states[worker], events) })
				}
			}
			repeated.Add(int64(v.duplicates))
		})
	}
	all.Wait()
	w.total.duplicates = int(repeated.Load())
	return states, errors.Join(context.Cause(ctx), errors.Join(failures...), w.store.close())
}

// visitor visits one partition after another.
type visitor struct {
	body       packer
	data       []byte
	entries    []packed
	events     []Event
	duplicates int
}

func (v *visitor) visit(f func(events []Event)) {
	p := packer{buf: v.data, reading: true}
	v.entries = v.entries[:0]
	for p.at < len(p.buf) {
		var x packed
		p.entry(&x)
		v.entries = append(v.entries, x)
	}
	slices.SortFunc(v.entries, func(a, b packed) int {
		return cmp.Or(bytes.Compare(a.work, b.work), cmp.Compare(a.seq, b.seq), cmp.Compare(a.time, b.time),
			bytes.Compare(a.id, b.id), bytes.Compare(a.body, b.body))
	})
	for start := 0; start < len(v.entries); {
		end := start + 1
		for end < len(v.entries) && len(v.entries[start].work) > 0 && bytes.Equal(v.entries[end].work, v.entries[start].work) {
			end++
		}
		v.events = v.events[:0]
		for i := start; i < end; i++ {
			if i > 0 && bytes.Equal(v.entries[i].id, v.entries[i-1].id) {
				v.duplicates++
				continue
			}
			v.events = append(v.events, Event{})
			v.entries[i].unpack(&v.body, &v.events[len(v.events)-1])
		}
		if len(v.events) > 0 {
			f(v.events)
		}
		start = end
	}
}

// chunk is a piece of a partition, in memory or in the file.
type chunk struct {
	data []byte
	at   int64
	size int
}

// chunkStore keeps the chunks of all partitions: in memory up to a limit, then in one temporary file.
type chunkStore struct {
	limit int64
	dir   string

	mu     sync.Mutex
	chunks [partitions][]chunk
	held   int64
	file   *os.File
	size   int64
	err    error
}

// add keeps a copy of data.
func (s *chunkStore) add(partition int, data []byte) {
	c := chunk{size: len(data)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held+int64(len(data)) <= s.limit {
		s.held += int64(len(data))
		c.data = bytes.Clone(data)
		s.chunks[partition] = append(s.chunks[partition], c)
		return
	}
	if s.file == nil && s.err == nil {
		s.file, s.err = os.CreateTemp(s.dir, "tenet-replay-*")
	}
	if s.err != nil {
		return
	}
	c.at = s.size
	s.size += int64(len(data))
	s.chunks[partition] = append(s.chunks[partition], c)
	_, s.err = s.file.WriteAt(data, c.at)
}

// failed returns the first error of writing to the file.
func (s *chunkStore) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("keep events in a temporary file: %w", s.err)
	}
	return nil
}

// load appends a partition to into.
func (s *chunkStore) load(partition int, into []byte) ([]byte, error) {
	for _, c := range s.chunks[partition] {
		if c.data != nil {
			into = append(into, c.data...)
			continue
		}
		into = slices.Grow(into, c.size)
		if _, err := s.file.ReadAt(into[len(into):len(into)+c.size], c.at); err != nil {
			return into, fmt.Errorf("read events from a temporary file: %w", err)
		}
		into = into[:len(into)+c.size]
	}
	return into, nil
}

func (s *chunkStore) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
