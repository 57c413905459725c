package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"runtime"
	"slices"
)

// FaultKind is a kind of damage to a log.
type FaultKind string

// The kinds of faults.
const (
	// FaultChanged: the event does not match its hash, its successor names another hash, or a head names another event in its
	// place.
	FaultChanged FaultKind = "changed"
	// FaultMissing: one or more events before this one are missing.
	FaultMissing FaultKind = "missing"
	// FaultOrder: events are not in the order in which they were written; this is the first one out of place.
	FaultOrder FaultKind = "order"
	// FaultInserted: the event does not belong to its chain.
	FaultInserted FaultKind = "inserted"
	// FaultTruncated: the chain, or the whole log, ends before a known head.
	FaultTruncated FaultKind = "truncated"
)

// Fault is the first event of a log with a fault of its kind.
type Fault struct {
	// Index is the line in the log, counted from 0. For truncated it is the number of lines.
	Index int `json:"index"`
	// ChainID, Seq and EventID identify the event; a value that cannot be read is empty. Seq is the place in the chain. For
	// missing and truncated it is the first missing place, and EventID is the event found there instead, if any.
	ChainID string    `json:"chain_id"`
	Seq     uint64    `json:"seq"`
	EventID string    `json:"event_id"`
	Kind    FaultKind `json:"fault"`
}

// String describes the fault in one line.
func (f Fault) String() string {
	return fmt.Sprintf("%s: index %d, chain %s, seq %d, event %s", f.Kind, f.Index, cmp.Or(f.ChainID, "-"), f.Seq, cmp.Or(f.EventID, "-"))
}

// VerifyOptions hold what is known about a log from other sources.
type VerifyOptions struct {
	// Heads are heads of chains that were recorded earlier. The log may have grown since. A head that has only a hash may be
	// of any chain: if its event was replaced by another valid one, and neither a later event nor another head shows where it
	// was, the fault is truncated. With ChainID and Seq, the fault is changed.
	Heads []Head
	// After are the heads of chains whose earlier events are not part of the log, for example because the log is a single
	// file of a rotated one. A chain that is not listed here must begin with its first event. Lines of earlier events are
	// counted as duplicates if they lead up to these heads.
	After []Head
}

// VerifyReport is the result of [Verify].
type VerifyReport struct {
	Lines      int `json:"lines"`
	Events     int `json:"events"`     // events in their place in a chain
	Duplicates int `json:"duplicates"` // lines delivered again, unchanged
	// Faults holds the first fault of each kind, ordered by index.
	Faults []Fault `json:"faults"`
	// TailVerified is true if heads were given, the log holds them all, and each chain is covered by one of them or by the
	// first event of a later chain. If it is false, events may have been cut off at the end without a trace.
	TailVerified bool          `json:"tail_verified"`
	Chains       []ChainReport `json:"chains"` // ordered by ID
}

// ChainReport describes one chain.
type ChainReport struct {
	ChainID string `json:"chain_id"`
	Events  int    `json:"events"`
	Head    Head   `json:"head"` // the last event found
	// VerifiedTo is the highest sequence number that a head confirms; 0 means none.
	VerifiedTo uint64 `json:"verified_to"`
}

// Intact reports whether there are no faults.
func (r *VerifyReport) Intact() bool { return len(r.Faults) == 0 }

// Verify checks every hash and every link of a log. It computes hashes from the stored bytes, never from a decoded event, on
// all cores; its memory grows with the chains of the log, by some hundred bytes each. It skips and counts lines that were
// delivered again unchanged.
//
// Without a head, Verify cannot detect that events were cut off at the end of a chain, or that a whole chain was rewritten.
// The error is that of the source or of ctx; faults of the log are in the report.
func Verify(ctx context.Context, s Source, o VerifyOptions) (*VerifyReport, error) {
	v, err := newVerifier(o)
	if err != nil {
		return nil, err
	}
	if err := v.readFrom(ctx, s); err != nil {
		return nil, fmt.Errorf("audit: verify: %w", err)
	}
	return v.report(), nil
}

// readFrom adds the lines of a source.
func (v *verifier) readFrom(ctx context.Context, s Source) error {
	parsers, before := make([]linkParser, runtime.GOMAXPROCS(0)), v.lines
	return readParallel(ctx, s, func(worker int, b *batch[link]) {
		for i := range b.ends {
			b.made = append(b.made, parsers[worker].parse(b.line(i)))
		}
	}, func(b *batch[link]) error {
		for i := range b.made {
			v.take(before+b.first+i, &b.made[i])
		}
		return nil
	})
}

type digest [sha256.Size]byte

// link holds the members of a line that [Verify] needs. Its slices are parts of the line.
type link struct {
	chain, id  []byte
	seq        uint64
	prev, hash digest
	heads      []byte // JSON; only in chain_opened
	sound      bool   // the line is canonical and matches its hash
}

// linkParser parses one line after another.
type linkParser struct {
	hash hash.Hash
	sum  []byte
}

func (p *linkParser) parse(line []byte) (l link) {
	if p.hash == nil {
		p.hash = sha256.New()
	}
	var cutFrom, cutTo int
	var stored []byte
	r := lineReader{line: line}
	canonical := r.members(func(name []byte) {
		start := r.at - len(name) - len(`"":`)
		switch string(name) {
		case "chain_id":
			l.chain = r.text()
		case "event_id":
			l.id = r.text()
		case "hash":
			stored, _ = r.raw()
			cutFrom, cutTo = start, r.at
		case "heads":
			l.heads = r.value()
		case "prev_hash":
			prev, _ := r.raw()
			if !parseDigest(&l.prev, prev) {
				r.fail()
			}
		case "seq":
			l.seq = r.unsigned()
		default:
			r.value()
		}
	})
	if !canonical || l.seq == 0 || len(l.chain) == 0 || !parseDigest(&l.hash, stored) {
		return l
	}
	p.hash.Reset()
	p.hash.Write(line[:cutFrom])
	p.hash.Write(line[cutTo+len(","):]) // the member seq follows hash
	p.sum = p.hash.Sum(p.sum[:0])
	l.sound = bytes.Equal(p.sum, l.hash[:])
	return l
}

func parseDigest(into *digest, text []byte) bool {
	if len(text) != 2*len(into) || bytes.ContainsAny(text, "ABCDEF") {
		return false
	}
	_, err := hex.Decode(into[:], text)
	return err == nil
}

// expectation is a head that the log should hold.
type expectation struct {
	Head
	Given  bool // by the caller; otherwise it was found in the log
	Found  bool
	Placed bool   // the head has only a hash, and an event names that hash as its predecessor's
	Other  *Fault `json:",omitempty"` // another event is in the head's place

	digest digest
}

// verifier follows the chains through a log.
type verifier struct {
	lines, events, duplicates int

	chains   map[string]*chainState
	rings    []*chainState // those that have recent events
	faults   map[FaultKind]Fault
	suspects []suspect
	expected []*expectation
	byChain  map[string][]*expectation
	anyChain map[digest]*expectation // heads without a chain
}

func newVerifier(o VerifyOptions) (*verifier, error) {
	v := &verifier{
		chains: map[string]*chainState{}, faults: map[FaultKind]Fault{},
		byChain: map[string][]*expectation{}, anyChain: map[digest]*expectation{},
	}
	for _, h := range o.After {
		c := &chainState{ID: h.ChainID, Last: place{Index: -1, Seq: h.Seq}, After: h.Seq}
		if !parseDigest(&c.Last.Hash, []byte(h.Hash)) || h.ChainID == "" || h.Seq == 0 {
			return nil, fmt.Errorf("audit: head %+v: needs chain_id, seq and a hash of 64 lower-case hexadecimal digits", h)
		}
		v.chains[h.ChainID] = c
		v.giveRing(c)
		c.keep(&c.Last)
	}
	for _, h := range o.Heads {
		x := &expectation{Head: h, Given: true}
		if !parseDigest(&x.digest, []byte(h.Hash)) {
			return nil, fmt.Errorf("audit: head %q: not a hash of 64 lower-case hexadecimal digits", h.Hash)
		}
		v.expect(x)
	}
	return v, nil
}

// expect adds a head that the log should hold.
func (v *verifier) expect(x *expectation) {
	v.expected = append(v.expected, x)
	if x.ChainID == "" {
		v.anyChain[x.digest] = x
		return
	}
	v.byChain[x.ChainID] = append(v.byChain[x.ChainID], x)
}

// fault records a fault unless one of its kind was found earlier in the log.
func (v *verifier) fault(f Fault) {
	// The names come from a line that may be damaged. Each byte that is not text becomes U+FFFD, as in the state between two parts.
	f.ChainID, f.EventID = string([]rune(f.ChainID)), string([]rune(f.EventID))
	if known, ok := v.faults[f.Kind]; !ok || f.Index < known.Index {
		v.faults[f.Kind] = f
	}
}

// take adds the next line.
func (v *verifier) take(index int, l *link) {
	v.lines++
	if !l.sound {
		v.suspect(index, l)
		return
	}
	c := v.chains[string(l.chain)]
	if c == nil {
		c = &chainState{ID: string(l.chain), Last: place{Index: -1}}
		v.chains[c.ID] = c
	}
	v.follow(c, index, l)
	if x := v.anyChain[l.prev]; x != nil && l.seq > max(1, c.After) { // the links of earlier lines are not checked
		x.Placed = true
	}
	if l.heads != nil {
		v.expectHeads(l.heads)
	}
}

// expectHeads adds the heads of other chains that the first event of a chain holds.
func (v *verifier) expectHeads(raw []byte) {
	var heads []Head
	if json.Unmarshal(raw, &heads) != nil { // the event matches its hash, so another program wrote it
		return
	}
	for _, h := range heads {
		x := &expectation{Head: h}
		if !parseDigest(&x.digest, []byte(h.Hash)) {
			continue
		}
		c := v.chains[h.ChainID]
		if c == nil || c.Last.Seq < h.Seq {
			v.expect(x)
			continue
		}
		if known := c.find(h.Seq); known != nil && !v.compare(c, x, known) {
			v.expected = append(v.expected, x)
		}
	}
}

// report returns the result at the end of the log.
func (v *verifier) report() *VerifyReport {
	v.finish()
	r := &VerifyReport{Lines: v.lines, Events: v.events, Duplicates: v.duplicates, Faults: sortedFaults(v.faults), Chains: []ChainReport{}}
	given := slices.ContainsFunc(v.expected, func(x *expectation) bool { return x.Given })
	r.TailVerified = given && r.Intact()
	for _, id := range slices.Sorted(maps.Keys(v.chains)) {
		c := v.chains[id]
		r.TailVerified = r.TailVerified && (c.Verified > c.After || c.After > 0 && c.Events == 0)
		r.Chains = append(r.Chains, ChainReport{
			ChainID: id, Events: c.Events, VerifiedTo: c.Verified,
			Head: Head{ChainID: id, Seq: c.Last.Seq, Hash: hex.EncodeToString(c.Last.Hash[:])},
		})
	}
	return r
}
