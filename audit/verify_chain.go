package audit

import (
	"maps"
	"slices"
)

// The limits of the state that is kept while a log is verified.
const (
	// recentEvents of each chain are kept, to tell lines that came in again from lines that were put in. Older ones are told
	// by following them: what is linked to a kept event by its hashes is unchanged.
	recentEvents = 1024
	// mostGaps and mostSuspects bound what is kept about a log that is damaged in many places.
	mostGaps     = 4096
	mostSuspects = 4096
)

// place is an event in its chain.
type place struct {
	index      int
	seq        uint64
	hash, prev digest
	event      []byte
}

func (p *place) set(index int, l *link) {
	p.index, p.seq, p.hash, p.prev = index, l.seq, l.hash, l.prev
	p.event = append(p.event[:0], l.id...)
}

// gap is a range of sequence numbers that have not been seen, and the event that was found in their place.
type gap struct {
	from, to uint64
	index    int
	event    string
	found    uint64 // its number
}

// suspect is a line that does not have its hash, or cannot be read. It was changed if its chain lacks an event where it
// stands, and inserted if it does not.
type suspect struct {
	fault   Fault
	changed bool
}

// chainState follows one chain. A line continues it, jumps over what is missing, or comes late:
//
//	seq = last+1 ─► continued: names the hash of the last event, or that one was changed
//	seq > last+1 ─► a gap, unless unreadable lines explain it; late lines may fill it (order), the rest is missing
//	seq ≤ last ───► late: in a gap (order), known (duplicate), beside the last (rival), older than what is kept (run),
//	                or inserted
type chainState struct {
	id       string
	events   int
	last     place
	kept     []place // the latest events, a ring
	next     int     // where the ring goes on
	rival    *place  // a second event with the last one's number and predecessor: its successor tells which is real
	gaps     []gap
	run      *run
	verified uint64
	after    uint64 // the last number before the log; its event is not in it
}

// run is a series of old lines that follow each other. They came in again if they lead up to an event that is kept.
type run struct {
	first, last place
	lines       int
}

func (c *chainState) fault(kind FaultKind, p *place) Fault {
	return Fault{Index: p.index, ChainID: c.id, Seq: p.seq, EventID: string(p.event), Kind: kind}
}

func (c *chainState) find(seq uint64) *place {
	i := slices.IndexFunc(c.kept, func(p place) bool { return p.seq == seq })
	if i < 0 {
		return nil
	}
	return &c.kept[i]
}

// suspect keeps a line that is not sound until it is known what became of it.
func (v *verifier) suspect(index int, l *link) {
	f := Fault{Index: index, ChainID: string(l.chain), Seq: l.seq, EventID: string(l.id), Kind: FaultChanged}
	if len(v.suspects) == mostSuspects {
		v.fault(f)
		return
	}
	v.suspects = append(v.suspects, suspect{fault: f})
}

// explain takes up to n unsound lines after the last event of a chain for the events that the chain lacks there.
func (v *verifier) explain(c *chainState, n uint64) (explained uint64) {
	for i := range v.suspects {
		s := &v.suspects[i]
		if explained == n {
			break
		}
		if s.changed || s.fault.Index < c.last.index || s.fault.ChainID != c.id && v.chains[s.fault.ChainID] != nil {
			continue
		}
		s.changed = true
		explained++
		v.fault(s.fault)
	}
	return explained
}

// follow puts a sound line into its chain.
func (v *verifier) follow(c *chainState, index int, l *link) {
	if l.seq <= c.last.seq {
		v.late(c, index, l)
		return
	}
	v.endRun(c)
	lacking := l.seq - c.last.seq - 1
	if lacking == 0 {
		v.continued(c, index, l)
	} else if explained := v.explain(c, lacking); explained < lacking && len(c.gaps) < mostGaps {
		c.gaps = append(c.gaps, gap{c.last.seq + 1 + explained, l.seq - 1, index, string(l.id), l.seq})
	}
	c.rival = nil
	v.advance(c, index, l)
}

// continued checks the link between the last event and its successor.
func (v *verifier) continued(c *chainState, index int, l *link) {
	switch {
	case l.prev == c.last.hash:
		if c.rival != nil {
			v.fault(c.fault(FaultInserted, c.rival))
		}
	case c.rival != nil && l.prev == c.rival.hash:
		v.fault(c.fault(FaultInserted, &c.last))
	case c.last.index < 0: // the first of the chain here names another predecessor
		v.fault(Fault{Index: index, ChainID: c.id, Seq: l.seq, EventID: string(l.id), Kind: FaultChanged})
	default:
		v.fault(c.fault(FaultChanged, &c.last))
	}
}

// advance makes the line the last event of its chain.
func (v *verifier) advance(c *chainState, index int, l *link) {
	v.events++
	c.events++
	c.last.set(index, l)
	if len(c.kept) < recentEvents {
		c.kept = append(c.kept, place{})
	}
	c.kept[c.next].set(index, l)
	c.next = (c.next + 1) % recentEvents
	v.meetAll(c, &c.last)
}

// late takes a line whose number the chain has passed already.
func (v *verifier) late(c *chainState, index int, l *link) {
	if known := c.find(l.seq); known != nil {
		v.again(c, known, index, l)
		return
	}
	if v.fill(c, l) {
		return
	}
	if len(c.kept) < recentEvents || l.seq > c.kept[c.next%len(c.kept)].seq { // in the place of an unsound line
		v.duplicates++
		return
	}
	if c.run == nil || l.seq != c.run.last.seq+1 || l.prev != c.run.last.hash {
		v.endRun(c)
		c.run = &run{}
		c.run.first.set(index, l)
	}
	c.run.last.set(index, l)
	c.run.lines++
}

// again takes a line with the number of an event that is kept.
func (v *verifier) again(c *chainState, known *place, index int, l *link) {
	switch {
	case known.hash == l.hash:
		if c.run != nil && l.seq == c.run.last.seq+1 && l.prev == c.run.last.hash {
			v.duplicates += c.run.lines
			c.run = nil
		}
		v.duplicates++
	case c.rival != nil && c.rival.hash == l.hash:
		v.duplicates++
	case l.seq == c.last.seq && l.prev == c.last.prev && c.rival == nil:
		c.rival = &place{}
		c.rival.set(index, l)
		if v.meetAll(c, c.rival) { // then the rival is the real one
			c.last, *c.rival = *c.rival, c.last
		}
	default:
		v.fault(Fault{Index: index, ChainID: c.id, Seq: l.seq, EventID: string(l.id), Kind: FaultInserted})
	}
}

// endRun gives up waiting for a run to lead up to what is known.
func (v *verifier) endRun(c *chainState) {
	if c.run != nil {
		v.fault(c.fault(FaultInserted, &c.run.first))
		c.run = nil
	}
}

// fill puts a late line into the gap that it left.
func (v *verifier) fill(c *chainState, l *link) bool {
	i := slices.IndexFunc(c.gaps, func(g gap) bool { return g.from <= l.seq && l.seq <= g.to })
	if i < 0 {
		return false
	}
	g := c.gaps[i]
	v.fault(Fault{Index: g.index, ChainID: c.id, Seq: g.found, EventID: g.event, Kind: FaultOrder})
	v.events++
	c.events++
	rest := make([]gap, 0, 2)
	if g.from < l.seq {
		rest = append(rest, gap{g.from, l.seq - 1, g.index, g.event, g.found})
	}
	if l.seq < g.to {
		rest = append(rest, gap{l.seq + 1, g.to, g.index, g.event, g.found})
	}
	c.gaps = slices.Replace(c.gaps, i, i+1, rest...)
	return true
}

// meetAll compares an event with the heads that were expected, and reports whether one of them vouches for it.
func (v *verifier) meetAll(c *chainState, found *place) (vouched bool) {
	for _, x := range v.byChain[c.id] {
		if x.Seq == found.seq {
			vouched = v.meet(c, x, found) || vouched
		}
	}
	if x := v.anyChain[found.hash]; x != nil {
		x.Seq = found.seq
		vouched = v.meet(c, x, found) || vouched
	}
	return vouched
}

// meet compares an expected head with the event that is there. Another event in its place is a fault only if the right one
// does not follow.
func (v *verifier) meet(c *chainState, x *expectation, found *place) bool {
	if found.hash != x.digest {
		f := c.fault(FaultChanged, found)
		x.other = &f
		return false
	}
	x.met = true
	c.verified = max(c.verified, x.Seq)
	return true
}

// finish decides what could only be known at the end of the log.
func (v *verifier) finish() {
	for _, c := range v.chains {
		v.endRun(c)
		if c.rival != nil { // nothing tells which is real: the first keeps its place
			v.fault(c.fault(FaultInserted, c.rival))
		}
	}
	for _, x := range v.expected {
		switch {
		case x.met, x.ChainID == "" && v.placed(x): // the place where its event stood has a fault of its own
		case x.other != nil:
			v.fault(*x.other)
		default:
			v.cut(x)
		}
	}
	for _, c := range v.chains {
		for _, g := range c.gaps {
			v.fault(Fault{Index: g.index, ChainID: c.id, Seq: g.from, EventID: g.event, Kind: FaultMissing})
		}
	}
	for _, s := range v.suspects {
		if !s.changed && v.passed(s.fault) {
			s.fault.Kind = FaultInserted
		}
		v.fault(s.fault)
	}
}

// placed reports whether the log or another head tells where the event stood of which there is nothing but the hash.
func (v *verifier) placed(x *expectation) bool {
	return x.placed || slices.ContainsFunc(v.expected, func(y *expectation) bool { return y.ChainID != "" && y.digest == x.digest && !y.met })
}

// cut notes that a head is not in the log, unless unsound lines at the end stand for it.
func (v *verifier) cut(x *expectation) {
	f := Fault{Index: v.lines, ChainID: x.ChainID, Seq: 1, Kind: FaultTruncated}
	c := v.chains[x.ChainID]
	if x.ChainID == "" { // nothing but a hash: of any chain
		for _, id := range slices.Sorted(maps.Keys(v.chains)) {
			if v.explain(v.chains[id], 1) == 1 {
				return
			}
			if len(v.chains) == 1 {
				c = v.chains[id]
				f.ChainID = id
			}
		}
	}
	if c == nil {
		v.fault(f)
		return
	}
	f.Seq = c.last.seq + 1
	if x.Seq == 0 || x.Seq > c.last.seq && v.explain(c, x.Seq-c.last.seq) < x.Seq-c.last.seq {
		v.fault(f)
	}
}

// passed reports whether the chains to which an unsound line may belong went on after it without lacking anything.
func (v *verifier) passed(f Fault) bool {
	if c := v.chains[f.ChainID]; c != nil {
		return c.last.index > f.Index
	}
	for _, c := range v.chains {
		if c.last.index < f.Index {
			return false
		}
	}
	return len(v.chains) > 0
}
