package audit

import (
	"encoding/binary"
	"sync"
	"time"
)

// symbols numbers the strings that are frequent in a log: keys, reasons, classes, revisions. Numbers are assigned while a log
// is read, and turned back into strings afterwards.
type symbols struct {
	mu      sync.Mutex
	numbers map[string]uint64
	names   []string
}

func (s *symbols) number(name string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.numbers[name]
	if !ok {
		n = uint64(len(s.names))
		s.numbers[name] = n
		s.names = append(s.names, name)
	}
	return n
}

// maxSymbols is how many symbols a goroutine caches. Reading a log with more distinct strings is slower.
const maxSymbols = 1 << 16

// interner caches symbols for one goroutine, so that it needs neither allocations nor the lock.
type interner struct {
	shared *symbols
	known  map[string]interned
}

type interned struct {
	name   string
	number uint64
}

// name returns text as a string.
func (in *interner) name(text []byte) string {
	if s, ok := in.known[string(text)]; ok {
		return s.name
	}
	return in.add(string(text)).name
}

func (in *interner) number(name string) uint64 {
	if s, ok := in.known[name]; ok {
		return s.number
	}
	return in.add(name).number
}

func (in *interner) add(name string) interned {
	s := interned{name, in.shared.number(name)}
	if len(in.known) < maxSymbols {
		in.known[name] = s
	}
	return s
}

// packer encodes or decodes the members of an event that replay and statistics need. The packed form exists only in memory
// and temporary files, while one log is being read.
type packer struct {
	buf     []byte
	at      int // of reading
	reading bool
	names   []string  // reading
	intern  *interner // writing
	codec   codec
}

func (p *packer) uint64(v *uint64) {
	if !p.reading {
		p.buf = binary.AppendUvarint(p.buf, *v)
		return
	}
	x, n := binary.Uvarint(p.buf[p.at:])
	*v = x
	p.at += n
}

func packNumber[N ~int | ~int64](p *packer, v *N) {
	if !p.reading {
		p.buf = binary.AppendVarint(p.buf, int64(*v))
		return
	}
	x, n := binary.Varint(p.buf[p.at:])
	*v = N(x)
	p.at += n
}

func (p *packer) bool(v *bool) {
	var x uint64
	if *v {
		x = 1
	}
	p.uint64(&x)
	*v = x == 1
}

// packSymbol packs a string of which a log has few distinct values.
func packSymbol[S ~string](p *packer, v *S) {
	if !p.reading {
		p.buf = binary.AppendUvarint(p.buf, p.intern.number(string(*v)))
		return
	}
	var n uint64
	p.uint64(&n)
	*v = S(p.names[n])
}

// bytes packs a string of which a log has many distinct values. When reading, the result is part of the buffer.
func (p *packer) bytes(v *[]byte) {
	n := uint64(len(*v))
	p.uint64(&n)
	if !p.reading {
		p.buf = append(p.buf, *v...)
		return
	}
	*v = p.buf[p.at : p.at+int(n) : p.at+int(n)]
	p.at += int(n)
}

// present packs whether an optional part follows, and returns it.
func present[T any](p *packer, v **T) bool {
	there := *v != nil
	p.bool(&there)
	if there && p.reading {
		*v = new(T)
	}
	return there
}

// event packs or unpacks the members of e that replay and statistics need.
func (p *packer) event(e *Event) {
	p.codec.p, p.codec.brief = p, true
	e.members(&p.codec)
}

// packed is an event in packed form, with the members by which the events of its work are sorted. Its slices are parts of a
// buffer.
type packed struct {
	work, id []byte
	seq      int
	time     int64 // microseconds since 1970
	body     []byte
}

// entry packs or unpacks x.
func (p *packer) entry(x *packed) {
	p.bytes(&x.work)
	p.bytes(&x.id)
	packNumber(p, &x.seq)
	packNumber(p, &x.time)
	p.bytes(&x.body)
}

// unpack sets e, which must be the zero Event, to the event.
func (x *packed) unpack(p *packer, e *Event) {
	p.buf, p.at = x.body, 0
	e.ID, e.WorkID, e.Time = string(x.id), string(x.work), time.UnixMicro(x.time).UTC()
	p.event(e)
}
