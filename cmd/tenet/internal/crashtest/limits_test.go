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

// held is a lease, by the store's clock.
type held struct {
	job      string
	from, to time.Time
}

// limits checks the leases of jobs with limits. A claim may be stamped earlier than it was made by slack.
func (a *audit) limits(store stored, slack time.Duration) {
	leases := map[string][]held{} // by type and key
	for id, entries := range a.entries {
		r, history, err := store.Get(context.Background(), id)
		if err != nil || r.Type != "bound" && r.Type != "fail" {
			continue // audit.job reports the error
		}
		ends := map[int64]time.Time{}
		for _, h := range history {
			ends[h.Fence] = h.Finished
		}
		for _, e := range entries {
			if end, ended := ends[e.Fence]; e.Event == "claimed" && ended {
				leases[r.Type+" "+r.Meta["key"]] = append(leases[r.Type+" "+r.Meta["key"]], held{id, e.Claimed.Add(slack), end})
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
			a.t.Errorf("J19: %s: %s was claimed at %v, after %s, whose lease ended at %v", key, h.job, h.from, before.job, before.to)
		}
	}
}
