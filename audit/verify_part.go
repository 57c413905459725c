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

// savedVerification is the form of [Verification.State].
type savedVerification struct {
	After                     string
	Lines, Events, Duplicates int
	Chains                    []chainState
	Faults                    []Fault
	Suspects                  []suspect      `json:",omitempty"`
	Expected                  []*expectation `json:",omitempty"`
}

// MarshalText writes the hash as digits.
func (d digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText reads what MarshalText has written.
func (d *digest) UnmarshalText(text []byte) error {
	if !parseDigest(d, text) {
		return errors.New("not a hash")
	}
	return nil
}

// State returns what is needed to go on with the verification later. It grows with the chains of the log, by about 300 bytes each.
func (v *Verification) State() ([]byte, error) {
	f := v.verifier
	out := savedVerification{
		After: v.after, Lines: f.lines, Events: f.events, Duplicates: f.duplicates, Faults: sortedFaults(f.faults), Suspects: f.suspects, Expected: f.expected,
	}
	chains := slices.SortedFunc(maps.Values(f.chains), func(a, b *chainState) int { return cmp.Or(b.Last.Index-a.Last.Index, cmp.Compare(a.ID, b.ID)) })
	left := savedRecent
	for _, c := range chains { // those that were written to last may go on, and need their events
		n := min(len(c.Recent), savedOfChain, left)
		left -= n
		out.Chains = append(out.Chains, c.save(n))
	}
	return json.Marshal(out)
}

// save returns a chain with its last n events, the oldest first.
func (c *chainState) save(n int) chainState {
	out := *c
	out.Forgot, out.Recent = c.Forgot || n < len(c.Recent), nil
	for i := len(c.Recent) - n; i < len(c.Recent); i++ {
		out.Recent = append(out.Recent, c.Recent[(c.next+i)%len(c.Recent)])
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
	f, _ := newVerifier(VerifyOptions{}) // only heads are refused
	f.lines, f.events, f.duplicates, f.suspects = saved.Lines, saved.Events, saved.Duplicates, saved.Suspects
	for _, fault := range saved.Faults {
		f.faults[fault.Kind] = fault
	}
	for i := range saved.Chains {
		c := &saved.Chains[i]
		c.restore()
		f.chains[c.ID] = c
		if len(c.Recent) > 0 {
			f.giveRing(c)
		}
	}
	for _, x := range saved.Expected {
		if x == nil || !parseDigest(&x.digest, []byte(x.Hash)) {
			return nil, errors.New("audit: verify: not the state of a verification: a head is not a hash")
		}
		f.expect(x)
	}
	return &Verification{f, saved.After}, nil
}

// restore completes a chain that save has returned.
func (c *chainState) restore() {
	c.Recent = c.Recent[max(0, len(c.Recent)-recentEvents):]
	c.next = len(c.Recent) % recentEvents
	c.Gaps = c.Gaps[:min(len(c.Gaps), maxGaps)]
}
