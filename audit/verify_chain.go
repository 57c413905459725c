package audit

import (
	"maps"
	"slices"
)

// Limits of the state of a verification.
const (
	// recentEvents is how many events of each chain are kept, to distinguish duplicates from inserted lines. A series of older
	// lines is unchanged if its hashes link it to an event that is kept.
	recentEvents = 1024
	// recentChains is how many chains have them: those that were written to last.
	recentChains = 256
	// maxGaps and maxSuspects bound the memory for a log that is damaged in many places.
	maxGaps     = 4096
	maxSuspects = 4096
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

// gap is a range of missing sequence numbers, and the event that was found in their place.
type gap struct {
	from, to uint64
	index    int
	event    string
	found    uint64 // that event's number
}

// suspect is a line that does not match its hash, or cannot be read. It was changed if an event is missing from its chain in
// its place; otherwise it was inserted.
type suspect struct {
	fault   Fault
	changed bool
}

// chainState is the state of one chain. A line continues the chain, leaves a gap, or is late:
//
//	seq = last+1 ─► continued: it names the hash of the last event, or else the last event was changed
//	seq > last+1 ─► a gap, unless unreadable lines explain it; late lines may fill it (order), the rest is missing
//	seq ≤ last ───► late: in a gap (order), a recent event (duplicate), a second version of the last event (rival), older than
//	                the recent events (run), or inserted
type chainState struct {
	id       string
	events   int
	last     place
	recent   []place // a ring of the last events
	next     int     // the ring's next place
	forgot   bool    // events were left out that the ring had
	rival    *place  // a second event with the last one's number and predecessor; their successor shows which is genuine
	gaps     []gap
	run      *run
	verified uint64
	after    uint64 // the last number before the log; lines up to it are duplicates if they lead up to its hash
}

// run is a series of old lines that follow each other. They are duplicates if they lead up to a recent event.
type run struct {
	first, last place
	lines       int
}

func (c *chainState) fault(kind FaultKind, p *place) Fault {
	return Fault{Index: p.index, ChainID: c.id, Seq: p.seq, EventID: string(p.event), Kind: kind}
}

// find returns the event with a number if it is a recent one. The last one is, even if it came before the log.
func (c *chainState) find(seq uint64) *place {
	if i := slices.IndexFunc(c.recent, func(p place) bool { return p.seq == seq }); i >= 0 {
		return &c.recent[i]
	}
	if c.last.seq == seq {
		return &c.last
	}
	return nil
}

// suspect keeps an unsound line until it is known whether it was changed or inserted.
func (v *verifier) suspect(index int, l *link) {
	f := Fault{Index: index, ChainID: string(l.chain), Seq: l.seq, EventID: string(l.id), Kind: FaultChanged}
	if len(v.suspects) == maxSuspects {
		v.fault(f)
		return
	}
	v.suspects = append(v.suspects, suspect{fault: f})
}

// explain marks up to n unsound lines after the last event of a chain as the events that are missing there, and returns how
// many it marked.
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

// follow adds a sound line to its chain.
func (v *verifier) follow(c *chainState, index int, l *link) {
	if l.seq <= c.last.seq {
		v.late(c, index, l)
		return
	}
	v.endRun(c)
	lacking := l.seq - c.last.seq - 1
	if lacking == 0 {
		v.continued(c, index, l)
	} else if explained := v.explain(c, lacking); explained < lacking && len(c.gaps) < maxGaps {
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
	case c.last.index < 0: // the chain's first event in this log names another predecessor
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
	if len(c.recent) == 0 {
		v.giveRing(c)
	}
	c.keep(&c.last)
	v.compareHeads(c, &c.last)
}

// keep adds an event to the recent ones.
func (c *chainState) keep(p *place) {
	if len(c.recent) < recentEvents {
		c.recent = append(c.recent, place{})
	}
	kept := &c.recent[c.next]
	kept.index, kept.seq, kept.hash, kept.prev = p.index, p.seq, p.hash, p.prev
	kept.event = append(kept.event[:0], p.event...)
	c.next = (c.next + 1) % recentEvents
}

// giveRing lets a chain keep recent events, in place of the chain that was written to longest ago if too many do.
func (v *verifier) giveRing(c *chainState) {
	if len(v.rings) == recentChains {
		oldest := slices.MinFunc(v.rings, func(a, b *chainState) int { return a.last.index - b.last.index })
		oldest.recent, oldest.next, oldest.forgot = nil, 0, true
		v.rings = slices.DeleteFunc(v.rings, func(x *chainState) bool { return x == oldest })
	}
	v.rings = append(v.rings, c)
}

// late adds a line whose number the chain has passed already.
func (v *verifier) late(c *chainState, index int, l *link) {
	if known := c.find(l.seq); known != nil {
		v.sameNumber(c, known, index, l)
		return
	}
	if v.fill(c, l) {
		return
	}
	if l.seq > c.after && (!c.forgot && len(c.recent) < recentEvents || len(c.recent) > 0 && l.seq > c.recent[c.next%len(c.recent)].seq) { // in the place of an unsound line
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

// sameNumber adds a line with the number of a recent event.
func (v *verifier) sameNumber(c *chainState, known *place, index int, l *link) {
	switch {
	case known.hash == l.hash:
		if c.run != nil && l.seq == c.run.last.seq+1 && l.prev == c.run.last.hash {
			v.duplicates += c.run.lines
			c.run = nil
		}
		v.duplicates++
	case c.rival != nil && c.rival.hash == l.hash:
		v.duplicates++
	case known.index >= 0 && l.seq == c.last.seq && l.prev == c.last.prev && c.rival == nil:
		c.rival = &place{}
		c.rival.set(index, l)
		if v.compareHeads(c, c.rival) { // then the rival is genuine
			c.last, *c.rival = *c.rival, c.last
		}
	default:
		v.fault(Fault{Index: index, ChainID: c.id, Seq: l.seq, EventID: string(l.id), Kind: FaultInserted})
	}
}

// endRun ends a run that did not lead up to a recent event.
func (v *verifier) endRun(c *chainState) {
	if c.run != nil {
		v.fault(c.fault(FaultInserted, &c.run.first))
		c.run = nil
	}
}

// fill puts a late line into its gap, if there is one.
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

// compareHeads compares an event with the expected heads in its place, and reports whether one of them confirms it.
func (v *verifier) compareHeads(c *chainState, found *place) (confirmed bool) {
	for _, x := range v.byChain[c.id] {
		if x.Seq == found.seq {
			confirmed = v.compare(c, x, found) || confirmed
		}
	}
	if x := v.anyChain[found.hash]; x != nil {
		x.Seq = found.seq
		confirmed = v.compare(c, x, found) || confirmed
	}
	return confirmed
}

// compare compares an expected head with the event in its place, and reports whether they agree. A different event there is a
// fault only if the right one does not follow.
func (v *verifier) compare(c *chainState, x *expectation, found *place) bool {
	if found.hash != x.digest {
		f := c.fault(FaultChanged, found)
		x.other = &f
		return false
	}
	x.found = true
	c.verified = max(c.verified, x.Seq)
	return true
}

// finish records the faults that are known only at the end of the log.
func (v *verifier) finish() {
	for _, c := range v.chains {
		v.endRun(c)
		if c.rival != nil { // nothing shows which is genuine: the first keeps its place
			v.fault(c.fault(FaultInserted, c.rival))
		}
	}
	for _, x := range v.expected {
		switch {
		case x.found, x.ChainID == "" && v.placed(x): // the place of its event has a fault of its own
		case x.other != nil:
			v.fault(*x.other)
		default:
			v.truncated(x)
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

// placed reports whether the log or another head shows the place of an event of which only the hash is known.
func (v *verifier) placed(x *expectation) bool {
	return x.placed || slices.ContainsFunc(v.expected, func(y *expectation) bool { return y.ChainID != "" && y.digest == x.digest && !y.found })
}

// truncated records that a head is not in the log, unless unsound lines at the end explain that.
func (v *verifier) truncated(x *expectation) {
	f := Fault{Index: v.lines, ChainID: x.ChainID, Seq: 1, Kind: FaultTruncated}
	c := v.chains[x.ChainID]
	if x.ChainID == "" { // the head has only a hash: it may be of any chain
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

// passed reports whether every chain to which an unsound line may belong continues after it.
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
