package audit

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Verification is a [Verify] in parts, for logs that are too long for one call. It is not safe for concurrent use.
//
// Its result is that of Verify, except that a line delivered again long after its event, in a later part, may count as inserted:
// [Verification.State] keeps the last 64 events of a chain, and 4,096 in all.
type Verification struct {
	verifier *verifier
	after    string // the cursor of the last line
}

// NewVerification begins a verification. It fails for heads that Verify refuses.
func NewVerification(o VerifyOptions) (*Verification, error) {
	v, err := newVerifier(o)
	if err != nil {
		return nil, err
	}
	return &Verification{verifier: v}, nil
}

// Continue verifies the next part of a log, and reports whether that was the end of it. After an error the verification cannot
// go on.
func (v *Verification) Continue(ctx context.Context, s Source, b Bounds) (ended bool, err error) {
	p := &part{Source: s, after: v.after, b: b}
	if err := v.verifier.readFrom(ctx, p); err != nil {
		return false, fmt.Errorf("audit: verify: %w", err)
	}
	v.after = p.after
	return !p.cut, nil
}

// Report returns the result at the end of the log. The verification cannot go on after it.
func (v *Verification) Report() *VerifyReport { return v.verifier.report() }

// Progress returns how far the verification is, with the faults that are certain already. Its chains are left out.
func (v *Verification) Progress() *VerifyReport {
	f := v.verifier
	return &VerifyReport{Lines: f.lines, Events: f.events, Duplicates: f.duplicates, Faults: sortedFaults(f.faults), Chains: []ChainReport{}}
}

func sortedFaults(faults map[FaultKind]Fault) []Fault {
	list := slices.AppendSeq([]Fault{}, maps.Values(faults))
	slices.SortFunc(list, func(a, b Fault) int { return cmp.Or(a.Index-b.Index, cmp.Compare(a.Kind, b.Kind)) })
	return list
}

// Limits of what State keeps.
const (
	savedOfChain = 64
	savedRecent  = 4096
)

// The saved forms have the fields of the types after which they are named.
type (
	savedPlace struct {
		Index      int
		Seq        uint64
		Hash, Prev digest
		Event      string `json:",omitempty"`
	}
	savedGap struct {
		From, To uint64
		Index    int
		Event    string
		Found    uint64
	}
	savedRun struct {
		First, Last savedPlace
		Lines       int
	}
	savedChain struct {
		ID       string
		Events   int
		Last     savedPlace
		Recent   []savedPlace `json:",omitempty"` // the oldest first
		Forgot   bool         `json:",omitempty"`
		Rival    *savedPlace  `json:",omitempty"`
		Gaps     []savedGap   `json:",omitempty"`
		Run      *savedRun    `json:",omitempty"`
		Verified uint64       `json:",omitempty"`
		After    uint64       `json:",omitempty"`
	}
	savedExpectation struct {
		Head
		Given, Found, Placed bool
		Other                *Fault `json:",omitempty"`
	}
	savedSuspect struct {
		Fault   Fault
		Changed bool
	}
	savedVerification struct {
		After                     string
		Lines, Events, Duplicates int
		Chains                    []savedChain
		Faults                    []Fault
		Suspects                  []savedSuspect     `json:",omitempty"`
		Expected                  []savedExpectation `json:",omitempty"`
	}
)

// MarshalText writes the hash as digits.
func (d digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText reads what MarshalText has written.
func (d *digest) UnmarshalText(text []byte) error {
	if !parseDigest(d, text) {
		return errors.New("not a hash")
	}
	return nil
}

func savePlace(p *place) savedPlace {
	return savedPlace{p.index, p.seq, p.hash, p.prev, string(p.event)}
}

func (p savedPlace) place() place { return place{p.Index, p.Seq, p.Hash, p.Prev, []byte(p.Event)} }

// State returns what is needed to go on with the verification later. It grows with the chains of the log, by about 300 bytes each.
func (v *Verification) State() ([]byte, error) {
	f := v.verifier
	out := savedVerification{After: v.after, Lines: f.lines, Events: f.events, Duplicates: f.duplicates, Faults: sortedFaults(f.faults)}
	chains := slices.SortedFunc(maps.Values(f.chains), func(a, b *chainState) int { return cmp.Or(b.last.index-a.last.index, cmp.Compare(a.id, b.id)) })
	left := savedRecent
	for _, c := range chains { // those that were written to last may go on, and need their events
		n := min(len(c.recent), savedOfChain, left)
		left -= n
		out.Chains = append(out.Chains, c.save(n))
	}
	for _, s := range f.suspects {
		out.Suspects = append(out.Suspects, savedSuspect{s.fault, s.changed})
	}
	for _, x := range f.expected {
		out.Expected = append(out.Expected, savedExpectation{x.Head, x.given, x.found, x.placed, x.other})
	}
	return json.Marshal(out)
}

// save saves a chain with its last n events.
func (c *chainState) save(n int) savedChain {
	out := savedChain{ID: c.id, Events: c.events, Last: savePlace(&c.last), Forgot: c.forgot || n < len(c.recent), Verified: c.verified, After: c.after}
	for i := len(c.recent) - n; i < len(c.recent); i++ {
		out.Recent = append(out.Recent, savePlace(&c.recent[(c.next+i)%len(c.recent)]))
	}
	if c.rival != nil {
		rival := savePlace(c.rival)
		out.Rival = &rival
	}
	for _, g := range c.gaps {
		out.Gaps = append(out.Gaps, savedGap{g.from, g.to, g.index, g.event, g.found})
	}
	if c.run != nil {
		out.Run = &savedRun{savePlace(&c.run.first), savePlace(&c.run.last), c.run.lines}
	}
	return out
}

// ResumeVerification returns the verification whose state it is given. The state is trusted: whoever can change it decides what
// the verification finds.
func ResumeVerification(state []byte) (*Verification, error) {
	var saved savedVerification
	if err := json.Unmarshal(state, &saved); err != nil {
		return nil, fmt.Errorf("audit: verify: not the state of a verification: %w", err)
	}
	f, err := newVerifier(VerifyOptions{})
	if err != nil {
		return nil, err
	}
	f.lines, f.events, f.duplicates = saved.Lines, saved.Events, saved.Duplicates
	for _, fault := range saved.Faults {
		f.faults[fault.Kind] = fault
	}
	for _, c := range saved.Chains {
		restored := c.restore()
		f.chains[c.ID] = restored
		if len(restored.recent) > 0 {
			f.giveRing(restored)
		}
	}
	for _, s := range saved.Suspects {
		f.suspects = append(f.suspects, suspect{s.Fault, s.Changed})
	}
	for _, x := range saved.Expected {
		restored := &expectation{Head: x.Head, given: x.Given, found: x.Found, placed: x.Placed, other: x.Other}
		if !parseDigest(&restored.digest, []byte(x.Hash)) {
			return nil, errors.New("audit: verify: not the state of a verification: a head is not a hash")
		}
		f.expect(restored)
	}
	return &Verification{f, saved.After}, nil
}

func (c *savedChain) restore() *chainState {
	out := &chainState{id: c.ID, events: c.Events, last: c.Last.place(), verified: c.Verified, after: c.After, forgot: c.Forgot}
	for _, p := range c.Recent[max(0, len(c.Recent)-recentEvents):] {
		out.recent = append(out.recent, p.place())
	}
	out.next = len(out.recent) % recentEvents
	if c.Rival != nil {
		rival := c.Rival.place()
		out.rival = &rival
	}
	for _, g := range c.Gaps[:min(len(c.Gaps), maxGaps)] {
		out.gaps = append(out.gaps, gap{g.From, g.To, g.Index, g.Event, g.Found})
	}
	if c.Run != nil {
		out.run = &run{c.Run.First.place(), c.Run.Last.place(), c.Run.Lines}
	}
	return out
}
