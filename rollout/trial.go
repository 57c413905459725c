package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a Trial.
const (
	MaxDivergences = 64   // that are listed
	maxTrialText   = 512  // bytes of a key
	maxTrialReason = 100  // bytes of a reason
	maxRefusal     = 2048 // bytes
)

// Trial counts what a revision under trial would have decided otherwise than the revision in force: in one client since it got the
// revision, or in all clients.
type Trial struct {
	Revision int64 `json:"revision"`
	// Refused is why the client cannot use the revision; empty if it can.
	Refused string `json:"refused,omitempty"`
	// Decisions are those that both revisions made about the same outcomes.
	Decisions int64 `json:"decisions"`
	// Divergences are the most frequent differences, at most MaxDivergences; Others counts those that are not listed.
	Divergences []Divergence `json:"divergences,omitempty"`
	Others      int64        `json:"others,omitempty"`
}

// Divergence counts the decisions of one key in which the revision under trial differs in the same way. Equal reasons mean that only
// the delay differs.
type Divergence struct {
	Key    string `json:"key"`
	Reason string `json:"reason"` // of the decision that took effect
	Trial  string `json:"trial"`  // the reason under trial
	Count  int64  `json:"count"`
}

func (d Divergence) compare(other Divergence) int {
	return cmp.Or(cmp.Compare(other.Count, d.Count), strings.Compare(d.Key, other.Key), strings.Compare(d.Reason, other.Reason), strings.Compare(d.Trial, other.Trial))
}

// Validate refuses values out of bounds.
func (t *Trial) Validate() error {
	switch {
	case t.Revision < 1:
		return fmt.Errorf("trial: revision %d is below 1", t.Revision)
	case t.Decisions < 0 || t.Others < 0:
		return errors.New("trial: a count is negative")
	case len(t.Refused) > maxRefusal:
		return fmt.Errorf("trial: refused: longer than %d bytes", maxRefusal)
	case len(t.Divergences) > MaxDivergences:
		return fmt.Errorf("trial: more than %d divergences", MaxDivergences)
	}
	for i, d := range t.Divergences {
		if d.Key == "" || len(d.Key) > maxTrialText || !utf8.ValidString(d.Key) || len(d.Reason) > maxTrialReason || len(d.Trial) > maxTrialReason || d.Count < 1 {
			return fmt.Errorf("trial: divergences[%d] is out of bounds", i)
		}
	}
	return nil
}

// Add adds what another client counted under the same revision. It keeps all divergences; see Listed.
func (t *Trial) Add(other *Trial) {
	t.Decisions, t.Others = addSaturated(t.Decisions, other.Decisions), addSaturated(t.Others, other.Others)
	for _, d := range other.Divergences {
		same := func(o Divergence) bool { return o.Key == d.Key && o.Reason == d.Reason && o.Trial == d.Trial }
		if i := slices.IndexFunc(t.Divergences, same); i >= 0 {
			t.Divergences[i].Count = addSaturated(t.Divergences[i].Count, d.Count)
		} else {
			t.Divergences = append(t.Divergences, d)
		}
	}
}

// Listed returns the trial with the most frequent divergences first, and those beyond MaxDivergences under Others.
func (t Trial) Listed() Trial {
	t.Divergences = slices.SortedFunc(slices.Values(t.Divergences), Divergence.compare)
	for _, d := range t.Divergences[min(len(t.Divergences), MaxDivergences):] {
		t.Others = addSaturated(t.Others, d.Count)
	}
	t.Divergences = t.Divergences[:min(len(t.Divergences), MaxDivergences)]
	return t
}

// Diverged is the number of decisions that differ.
func (t *Trial) Diverged() int64 {
	n := t.Others
	for _, d := range t.Divergences {
		n = addSaturated(n, d.Count)
	}
	return n
}
