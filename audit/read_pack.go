package audit

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/tenetdev/tenet/classify"
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

// packer writes the part of an event that replay and statistics need, or reads it back: one description of the form serves
// both ways. It lives in memory and temporary files only, never longer than the reading of one log.
type packer struct {
	buf     []byte
	at      int // of reading
	reading bool
	names   []string  // reading
	intern  *interner // writing
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

func number[N ~int | ~int64](p *packer, v *N) {
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

// symbol is for strings of which there are few.
func symbol[S ~string](p *packer, v *S) {
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

func (p *packer) event(e *Event) {
	symbol(p, &e.Type)
	symbol(p, &e.Surface)
	symbol(p, &e.Key)
	symbol(p, &e.Category)
	symbol(p, &e.PolicyRevision)
	number(p, &e.Attempt)
	number(p, &e.HedgeIndex)
	symbol(p, &e.OutcomeKind)
	symbol(p, &e.OutcomeCategory)
	symbol(p, &e.OutcomeClass)
	symbol(p, &e.OutcomeReason)
	number(p, &e.PushbackNS)
	symbol(p, &e.MatchedRule)
	if present(p, &e.Facts) {
		p.facts(e.Facts)
	}
	symbol(p, &e.Decision)
	symbol(p, &e.Reason)
	number(p, &e.DelayNS)
	p.bool(&e.External)
	number(p, &e.ElapsedNS)
	number(p, &e.TookNS)
	if present(p, &e.LeftNS) {
		number(p, e.LeftNS)
	}
	symbol(p, &e.LeftReason)
	number(p, &e.StateNumber)
	number(p, &e.StateLimit)
	p.uint64(&e.Seed)
	n := len(e.Group)
	number(p, &n)
	if p.reading && n > 0 {
		e.Group = make([]int, n)
	}
	for i := range e.Group {
		number(p, &e.Group[i])
	}
	number(p, &e.Deciding)
	p.bool(&e.Denied)
	number(p, &e.TotalAttempts)
	symbol(p, &e.CoreVersion)
	symbol(p, &e.Action)
	p.uint64(&e.Count)
	p.uint64(&e.Lost)
}

func (p *packer) facts(f *Facts) {
	p.bool(&f.Failed)
	symbol(p, &f.Ended)
	p.bool(&f.TimedOut)
	symbol(p, &f.Mark)
	number(p, &f.PushbackNS)
	n := len(f.Classes)
	number(p, &n)
	if p.reading && n > 0 {
		f.Classes = make([]classify.Match, n)
	}
	for i := range f.Classes {
		symbol(p, &f.Classes[i].Class)
		symbol(p, &f.Classes[i].Parent)
	}
	if present(p, &f.Classified) {
		o := f.Classified
		symbol(p, &o.Kind)
		symbol(p, &o.Category)
		symbol(p, &o.Class)
		symbol(p, &o.Reason)
		number(p, &o.PushbackNS)
	}
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
	number(p, &x.seq)
	number(p, &x.time)
	p.bytes(&x.body)
}

// unpack gives back an event.
func (x *packed) unpack(names []string) Event {
	p := packer{buf: x.body, reading: true, names: names}
	e := Event{ID: string(x.id), WorkID: string(x.work), WorkSeq: x.seq, Time: time.UnixMicro(x.time).UTC()}
	p.event(&e)
	return e
}
