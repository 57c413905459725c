package audit

import (
	"encoding/binary"
	"sync"
	"time"
)

// symbols numbers the strings that occur again and again in a log: keys, reasons, classes, revisions. Numbers are handed
// out while a log is read, and turned back into strings afterwards.
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

// mostSymbols bounds what one goroutine keeps for itself; a log with more different strings is slower to read.
const mostSymbols = 1 << 16

// interner gives one goroutine its strings without allocating or locking.
type interner struct {
	shared *symbols
	known  map[string]interned
}

type interned struct {
	name   string
	number uint64
}

// name is the string of some bytes.
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
	if len(in.known) < mostSymbols {
		in.known[name] = s
	}
	return s
}

// packer writes the part of an event that replay and statistics need, or reads it back. The packed form lives in memory and
// temporary files only, never longer than the reading of one log.
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

// packSymbol is for strings of which there are few.
func packSymbol[S ~string](p *packer, v *S) {
	if !p.reading {
		p.buf = binary.AppendUvarint(p.buf, p.intern.number(string(*v)))
		return
	}
	var n uint64
	p.uint64(&n)
	*v = S(p.names[n])
}

// bytes is for strings of which there are many; read back they are parts of the buffer.
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

// present is for optional parts: it tells, both ways, whether the part follows.
func present[T any](p *packer, v **T) bool {
	there := *v != nil
	p.bool(&there)
	if there && p.reading {
		*v = new(T)
	}
	return there
}

// event packs or unpacks what replay and statistics need of e.
func (p *packer) event(e *Event) {
	p.codec.p, p.codec.brief = p, true
	e.members(&p.codec)
}

// packed is an event in packed form with what its work's events are ordered by. Its slices are parts of a buffer.
type packed struct {
	work, id []byte
	seq      int
	time     int64 // microseconds since 1970
	body     []byte
}

// entry writes or reads x with the length of its body.
func (p *packer) entry(x *packed) {
	p.bytes(&x.work)
	p.bytes(&x.id)
	packNumber(p, &x.seq)
	packNumber(p, &x.time)
	p.bytes(&x.body)
}

// unpack sets e, which is empty, to the event.
func (x *packed) unpack(p *packer, e *Event) {
	p.buf, p.at = x.body, 0
	e.ID, e.WorkID, e.Time = string(x.id), string(x.work), time.UnixMicro(x.time).UTC()
	p.event(e)
}
