package audit

import (
	"bytes"
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

// place is an event in its chain. The exported fields of this type and of those below are the form of [Verification.State].
type place struct {
	Index      int
	Seq        uint64
	Hash, Prev digest
	Event      eventID `json:",omitempty"`
}

// eventID is an event's ID in memory that the next event reuses. In JSON it is a text.
type eventID []byte

// MarshalText implements encoding.TextMarshaler.
func (id eventID) MarshalText() ([]byte, error) { return id, nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *eventID) UnmarshalText(text []byte) error {
	*id = bytes.Clone(text)
	return nil
}

func (p *place) set(index int, l *link) {
	p.Index, p.Seq, p.Hash, p.Prev = index, l.seq, l.hash, l.prev
	p.Event = append(p.Event[:0], l.id...)
}

// gap is a range of missing sequence numbers, and the event that was found in their place.
type gap struct {
	From, To uint64
	Index    int
	Event    string
	Found    uint64 // that event's number
}

// suspect is a line that does not match its hash, or cannot be read. It was changed if an event is missing from its chain in
// its place; otherwise it was inserted.
type suspect struct {
	Fault   Fault
	Changed bool
}

// chainState is the state of one chain. A line continues the chain, leaves a gap, or is late:
//
//	seq = last+1 ─► continued: it names the hash of the last event, or else the last event was changed
//	seq > last+1 ─► a gap, unless unreadable lines explain it; late lines may fill it (order), the rest is missing
//	seq ≤ last ───► late: in a gap (order), a recent event (duplicate), a second version of the last event (rival), older than
//	                the recent events (run), or inserted
type chainState struct {
	ID       string
	Events   int
	Last     place
	Recent   []place `json:",omitempty"` // a ring of the last events
	Forgot   bool    `json:",omitempty"` // events were left out that the ring had
	Rival    *place  `json:",omitempty"` // a second event with the last one's number and predecessor; their successor shows which is genuine
	Gaps     []gap   `json:",omitempty"`
	Run      *run    `json:",omitempty"`
	Verified uint64  `json:",omitempty"`
	After    uint64  `json:",omitempty"` // the last number before the log; lines up to it are duplicates if they lead up to its hash

	next int // the ring's next place
}

// run is a series of old lines that follow each other. They are duplicates if they lead up to a recent event.
type run struct {
	First, Last place
	Lines       int
}

func (c *chainState) fault(kind FaultKind, p *place) Fault {
	return Fault{Index: p.Index, ChainID: c.ID, Seq: p.Seq, EventID: string(p.Event), Kind: kind}
}

// find returns the event with a number if it is a recent one. The last one is, even if it came before the log.
func (c *chainState) find(seq uint64) *place {
	if i := slices.IndexFunc(c.Recent, func(p place) bool { return p.Seq == seq }); i >= 0 {
		return &c.Recent[i]
	}
	if c.Last.Seq == seq {
		return &c.Last
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
	v.suspects = append(v.suspects, suspect{Fault: f})
}

// explain marks up to n unsound lines after the last event of a chain as the events that are missing there, and returns how
// many it marked.
func (v *verifier) explain(c *chainState, n uint64) (explained uint64) {
	for i := range v.suspects {
		s := &v.suspects[i]
		if explained == n {
			break
		}
		if s.Changed || s.Fault.Index < c.Last.Index || s.Fault.ChainID != c.ID && v.chains[s.Fault.ChainID] != nil {
			continue
		}
		s.Changed = true
		explained++
		v.fault(s.Fault)
	}
	return explained
}

// follow adds a sound line to its chain.
func (v *verifier) follow(c *chainState, index int, l *link) {
	if l.seq <= c.Last.Seq {
		v.late(c, index, l)
		return
	}
	v.endRun(c)
	lacking := l.seq - c.Last.Seq - 1
	if lacking == 0 {
		v.continued(c, index, l)
	} else if explained := v.explain(c, lacking); explained < lacking && len(c.Gaps) < maxGaps {
		c.Gaps = append(c.Gaps, gap{c.Last.Seq + 1 + explained, l.seq - 1, index, string(l.id), l.seq})
	}
	c.Rival = nil
	v.advance(c, index, l)
}

// continued checks the link between the last event and its successor.
func (v *verifier) continued(c *chainState, index int, l *link) {
	switch {
	case l.prev == c.Last.Hash:
		if c.Rival != nil {
			v.fault(c.fault(FaultInserted, c.Rival))
		}
	case c.Rival != nil && l.prev == c.Rival.Hash:
		v.fault(c.fault(FaultInserted, &c.Last))
	case c.Last.Index < 0: // the chain's first event in this log names another predecessor
		v.fault(Fault{Index: index, ChainID: c.ID, Seq: l.seq, EventID: string(l.id), Kind: FaultChanged})
	default:
		v.fault(c.fault(FaultChanged, &c.Last))
	}
}

// advance makes the line the last event of its chain.
func (v *verifier) advance(c *chainState, index int, l *link) {
	v.events++
	c.Events++
	c.Last.set(index, l)
	if len(c.Recent) == 0 {
		v.giveRing(c)
	}
	c.keep(&c.Last)
	v.compareHeads(c, &c.Last)
}

// keep adds an event to the recent ones.
func (c *chainState) keep(p *place) {
	if len(c.Recent) < recentEvents {
		c.Recent = append(c.Recent, place{})
	}
	kept := &c.Recent[c.next]
	kept.Index, kept.Seq, kept.Hash, kept.Prev = p.Index, p.Seq, p.Hash, p.Prev
	kept.Event = append(kept.Event[:0], p.Event...)
	c.next = (c.next + 1) % recentEvents
}

// giveRing lets a chain keep recent events, in place of the chain that was written to longest ago if too many do.
func (v *verifier) giveRing(c *chainState) {
	if len(v.rings) == recentChains {
		oldest := slices.MinFunc(v.rings, func(a, b *chainState) int { return a.Last.Index - b.Last.Index })
		oldest.Recent, oldest.next, oldest.Forgot = nil, 0, true
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
	if l.seq > c.After && (!c.Forgot && len(c.Recent) < recentEvents || len(c.Recent) > 0 && l.seq > c.Recent[c.next%len(c.Recent)].Seq) { // in the place of an unsound line
		v.duplicates++
		return
	}
	if c.Run == nil || l.seq != c.Run.Last.Seq+1 || l.prev != c.Run.Last.Hash {
		v.endRun(c)
		c.Run = &run{}
		c.Run.First.set(index, l)
	}
	c.Run.Last.set(index, l)
	c.Run.Lines++
}

// sameNumber adds a line with the number of a recent event.
func (v *verifier) sameNumber(c *chainState, known *place, index int, l *link) {
	switch {
	case known.Hash == l.hash:
		if c.Run != nil && l.seq == c.Run.Last.Seq+1 && l.prev == c.Run.Last.Hash {
			v.duplicates += c.Run.Lines
			c.Run = nil
		}
		v.duplicates++
	case c.Rival != nil && c.Rival.Hash == l.hash:
		v.duplicates++
	case known.Index >= 0 && l.seq == c.Last.Seq && l.prev == c.Last.Prev && c.Rival == nil:
		c.Rival = &place{}
		c.Rival.set(index, l)
		if v.compareHeads(c, c.Rival) { // then the rival is genuine
			c.Last, *c.Rival = *c.Rival, c.Last
		}
	default:
		v.fault(Fault{Index: index, ChainID: c.ID, Seq: l.seq, EventID: string(l.id), Kind: FaultInserted})
	}
}

// endRun ends a run that did not lead up to a recent event.
func (v *verifier) endRun(c *chainState) {
	if c.Run != nil {
		v.fault(c.fault(FaultInserted, &c.Run.First))
		c.Run = nil
	}
}

// fill puts a late line into its gap, if there is one.
func (v *verifier) fill(c *chainState, l *link) bool {
	i := slices.IndexFunc(c.Gaps, func(g gap) bool { return g.From <= l.seq && l.seq <= g.To })
	if i < 0 {
		return false
	}
	g := c.Gaps[i]
	v.fault(Fault{Index: g.Index, ChainID: c.ID, Seq: g.Found, EventID: g.Event, Kind: FaultOrder})
	v.events++
	c.Events++
	rest := make([]gap, 0, 2)
	if g.From < l.seq {
		rest = append(rest, gap{g.From, l.seq - 1, g.Index, g.Event, g.Found})
	}
	if l.seq < g.To {
		rest = append(rest, gap{l.seq + 1, g.To, g.Index, g.Event, g.Found})
	}
	c.Gaps = slices.Replace(c.Gaps, i, i+1, rest...)
	return true
}

// compareHeads compares an event with the expected heads in its place, and reports whether one of them confirms it.
func (v *verifier) compareHeads(c *chainState, found *place) (confirmed bool) {
	for _, x := range v.byChain[c.ID] {
		if x.Seq == found.Seq {
			confirmed = v.compare(c, x, found) || confirmed
		}
	}
	if x := v.anyChain[found.Hash]; x != nil {
		x.Seq = found.Seq
		confirmed = v.compare(c, x, found) || confirmed
	}
	return confirmed
}

// compare compares an expected head with the event in its place, and reports whether they agree. A different event there is a
// fault only if the right one does not follow.
func (v *verifier) compare(c *chainState, x *expectation, found *place) bool {
	if found.Hash != x.digest {
		f := c.fault(FaultChanged, found)
		x.Other = &f
		return false
	}
	x.Found = true
	c.Verified = max(c.Verified, x.Seq)
	return true
}

// finish records the faults that are known only at the end of the log.
func (v *verifier) finish() {
	for _, c := range v.chains {
		v.endRun(c)
		if c.Rival != nil { // nothing shows which is genuine: the first keeps its place
			v.fault(c.fault(FaultInserted, c.Rival))
		}
	}
	for _, x := range v.expected {
		switch {
		case x.Found, x.ChainID == "" && v.placed(x): // the place of its event has a fault of its own
		case x.Other != nil:
			v.fault(*x.Other)
		default:
			v.truncated(x)
		}
	}
	for _, c := range v.chains {
		for _, g := range c.Gaps {
			v.fault(Fault{Index: g.Index, ChainID: c.ID, Seq: g.From, EventID: g.Event, Kind: FaultMissing})
		}
	}
	for _, s := range v.suspects {
		if !s.Changed && v.passed(s.Fault) {
			s.Fault.Kind = FaultInserted
		}
		v.fault(s.Fault)
	}
}

// placed reports whether the log or another head shows the place of an event of which only the hash is known.
func (v *verifier) placed(x *expectation) bool {
	return x.Placed || slices.ContainsFunc(v.expected, func(y *expectation) bool { return y.ChainID != "" && y.digest == x.digest && !y.Found })
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
	f.Seq = c.Last.Seq + 1
	if x.Seq == 0 || x.Seq > c.Last.Seq && v.explain(c, x.Seq-c.Last.Seq) < x.Seq-c.Last.Seq {
		v.fault(f)
	}
}

// passed reports whether every chain to which an unsound line may belong continues after it.
func (v *verifier) passed(f Fault) bool {
	if c := v.chains[f.ChainID]; c != nil {
		return c.Last.Index > f.Index
	}
	for _, c := range v.chains {
		if c.Last.Index < f.Index {
			return false
		}
	}
	return len(v.chains) > 0
}
