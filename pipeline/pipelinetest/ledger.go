package pipelinetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
)

// scenario is the script of a transaction.
type scenario int

const (
	succeeds scenario = iota
	failsOnce
	nacked
	refused
	exhausted
	timesOut
)

// scripted returns the scenario of the i-th transaction.
func scripted(i int) scenario {
	switch {
	case i%5000 == 1:
		return timesOut
	case i%20 == 3:
		return failsOnce
	case i%20 == 7:
		return refused
	case i%20 == 11:
		return exhausted
	case i%20 == 15:
		return nacked
	}
	return succeeds
}

// ends returns how a scenario ends: as a success, or as a dead letter of a category.
func (c scenario) ends() string {
	switch c {
	case refused:
		return classify.CategoryBusiness.String()
	case exhausted:
		return classify.CategorySystem.String()
	case timesOut:
		return classify.CategoryTimeout.String()
	}
	return string(pipeline.Success)
}

// entry records what has happened to a transaction.
type entry struct {
	attempts int // to process it
	nacks    int
	ends     []string // those that are different
}

// ledger holds an entry for each transaction by its number, which is its ID.
type ledger struct {
	third    func()        // called when the first third, and the second, has ended
	complete chan struct{} // closed when all have ended

	mu      sync.Mutex
	entries []entry
	count   int // of those that have ended
	faults  []string
}

func newLedger(n int) *ledger {
	return &ledger{complete: make(chan struct{}), entries: make([]entry, n)}
}

func number(x *pipeline.Transaction) int {
	i, err := strconv.Atoi(x.ID())
	if err != nil {
		panic(err) // nobody put it there
	}
	return i
}

// attempt counts an attempt and returns what there is.
func (l *ledger) attempt(i int) entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i].attempts++
	return l.entries[i]
}

// ended records the end of a delivery.
func (l *ledger) ended(d pipeline.Ended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := number(d.Delivery.Transaction)
	e := &l.entries[i]
	how := string(pipeline.Success)
	switch d.Outcome {
	case pipeline.Failed:
		if e.nacks++; scripted(i) != nacked {
			l.faults = append(l.faults, fmt.Sprintf("a delivery of %d failed: %v", i, d.Err))
		}
		return
	case pipeline.Redelivered:
		return
	case pipeline.Exception:
		how = "unknown"
		if failed, ok := errors.AsType[*pipeline.TransactionError](d.Err); ok {
			how = failed.Category.String()
		}
	}
	if slices.Contains(e.ends, how) {
		return
	}
	if e.ends = append(e.ends, how); len(e.ends) > 1 {
		return
	}
	switch l.count++; l.count {
	case len(l.entries):
		close(l.complete)
	case len(l.entries) / 3, 2 * (len(l.entries) / 3):
		l.third()
	}
}

const maxFaults = 20

// audit lists the differences between the scenario, the ledger and the dead letters that the server has.
func (l *ledger) audit(letters map[int][]string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	faults := slices.Clone(l.faults)
	for i, e := range l.entries {
		c := scripted(i)
		want := []string{c.ends()}
		written := slices.Compact(letters[i]) // the same one twice is a repetition
		switch {
		case !slices.Equal(e.ends, want):
			faults = append(faults, fmt.Sprintf("%d ended as %q instead of %q", i, e.ends, want))
		case c.ends() == string(pipeline.Success) && len(written) > 0:
			faults = append(faults, fmt.Sprintf("%d succeeded and has the letters %q", i, written))
		case c.ends() != string(pipeline.Success) && !slices.Equal(written, want):
			faults = append(faults, fmt.Sprintf("%d has the letters %q instead of %q", i, written, want))
		case c == failsOnce && e.attempts < 2, c == nacked && e.nacks == 0:
			faults = append(faults, fmt.Sprintf("%d ended after %d attempts, given back %d times", i, e.attempts, e.nacks))
		}
	}
	for i := range letters {
		if i >= len(l.entries) {
			faults = append(faults, fmt.Sprintf("a letter of %d, which was never there", i))
		}
	}
	if len(faults) > maxFaults {
		return append(faults[:maxFaults], fmt.Sprintf("and %d more", len(faults)-maxFaults))
	}
	return faults
}
