//go:build unix

package crashtest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

const (
	keys      = 4                      // into which limits divide jobs
	most      = 2                      // jobs of type bound and of one key that run at a time
	boundTime = 100 * time.Millisecond // of one of them
	failTime  = 20 * time.Millisecond  // of one of the jobs that fail
)

// limit bounds the jobs of two types. Jobs that fail run one after another within a key.
func limit(t *testing.T, store stored) {
	t.Helper()
	for jobType, l := range map[string]policy.JobLimit{
		"bound": {Name: "bound", Key: []string{"meta.key"}, Concurrency: most},
		"fail":  {Name: "ordered", Key: []string{"meta.key"}, Concurrency: 1, Order: policy.OrderStrict},
	} {
		setting := job.LimitSetting{LimitName: job.LimitName{Type: jobType, Name: l.Name}, Limit: &l}
		if err := store.SetLimit(t.Context(), setting); err != nil {
			t.Fatal(err)
		}
	}
}

// held is a part of the time for which a lease was held.
type held struct {
	job      string
	from, to time.Time
	lost     bool
}

// limits checks the leases of jobs with limits. A lease began before its worker wrote that it had it, and ended after its worker wrote
// that it would settle, or, if it was lost, no earlier than its store had promised. All processes have the same clock, so that leases
// overlap wherever these parts of them do.
func (a *audit) limits(store stored) {
	leases := map[string][]held{} // by type and key
	for id, entries := range a.entries {
		r, history, err := store.Get(context.Background(), id)
		if err != nil || r.Type != "bound" && r.Type != "fail" {
			continue // audit.job reports the error
		}
		parts, ended := map[int64]*held{}, map[int64]bool{} // by token
		for _, h := range history {
			parts[h.Fence] = &held{job: id, lost: h.Outcome == job.AttemptLost}
		}
		for _, e := range entries {
			h := parts[e.Fence]
			switch {
			case h == nil || ended[e.Fence]: // an extension may be written after the end
			case e.Event == "claimed":
				h.from, h.to = e.At, e.Until
			case e.Event == "extended" && e.Until.After(h.to):
				h.to = e.Until
			case e.Event == "settling" && !h.lost:
				h.to, ended[e.Fence] = e.At, true
			}
		}
		for _, h := range parts {
			if !h.from.IsZero() && h.to.After(h.from) {
				leases[r.Type+" "+r.Meta["key"]] = append(leases[r.Type+" "+r.Meta["key"]], *h)
			}
		}
	}
	if len(leases) != 2*keys {
		a.t.Errorf("leases of %d keys, want %d", len(leases), 2*keys)
	}
	full := false
	for key, list := range leases {
		slices.SortFunc(list, func(x, y held) int { return x.from.Compare(y.from) })
		if key[0] == 'f' {
			a.ordered(key, list)
			continue
		}
		n := mostAtOnce(list)
		full = full || n == most
		if n > most {
			a.t.Errorf("J19: %s: %d leases at a time, want at most %d", key, n, most)
		}
	}
	if !full {
		a.t.Errorf("J19: no key reached its limit: nothing was tested")
	}
}

// mostAtOnce returns the highest number of leases that were held at a time.
func mostAtOnce(list []held) (highest int) {
	type change struct {
		at time.Time
		n  int
	}
	var changes []change
	for _, h := range list {
		if h.to.After(h.from) {
			changes = append(changes, change{h.from, 1}, change{h.to, -1})
		}
	}
	slices.SortFunc(changes, func(x, y change) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.n, y.n)) })
	n := 0
	for _, c := range changes {
		n += c.n
		highest = max(highest, n)
	}
	return highest
}

// ordered checks that each job ends before the next one begins, in the order in which they were enqueued, which is that of their IDs.
func (a *audit) ordered(key string, list []held) {
	for i, h := range list[1:] {
		if before := list[i]; h.job < before.job || h.from.Before(before.to) {
			a.t.Errorf("J19: %s: %s had a lease at %v, after %s, which had one until %v", key, h.job, h.from, before.job, before.to)
		}
	}
}
