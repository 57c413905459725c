package demo

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// settled imports the deliveries and settles the first jobs with the given kinds.
func settled(t *testing.T, o Options, kinds ...job.Kind) {
	t.Helper()
	if err := importJobs(t.Context(), o, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	stored, err := records(t.Context(), o.Store)
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range kinds {
		d := o.Deliveries[i]
		claimed, err := o.Store.Claim(t.Context(), job.Claim{Worker: "host/7/x", Queues: []job.Slots{{Queue: d.Queue, Free: 100}}, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range claimed {
			s := job.Settlement{Ref: r.Ref(), Kind: job.KindRelease}
			if r.ID == stored[d.ID].ID {
				s = job.Settlement{Ref: r.Ref(), Kind: kind, Reason: policy.ReasonAttemptsExhausted, Error: "x"}
			}
			if errs := o.Store.Settle(t.Context(), []job.Settlement{s}); errs != nil && errs[0] != nil {
				t.Fatal(errs[0])
			}
		}
	}
}

func TestJobsAreAccountedForByTheEndpointsLedger(t *testing.T) {
	list := embedded(t)[:5]
	ids := make([]string, len(list))
	for i, d := range list {
		ids[i] = d.ID
	}
	store := memory.Open().Jobs()
	defer store.Close()
	o := Options{Deliveries: list, Store: store, Set: compiled(t, Policy())}
	settled(t, o, job.KindComplete, job.KindComplete, job.KindDead, job.KindDead)
	// The first was delivered twice; the second is completed, but the endpoint does not know it; the third is dead although it
	// was delivered; the last is unfinished.
	counts := Counts{Requests: 6, Accepted: map[string]int{ids[0]: 2, ids[2]: 1}}
	r, err := newReport(t.Context(), o, ending{"/7/", counts, 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ids[1], ids[4]}, r.Lost); diff != "" || r.Good() {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	if r.Arrived != 1 || r.Dead != 2 || r.DeadArrived != 1 || r.Repeated != 1 || r.DeadByReason[policy.ReasonAttemptsExhausted] != 2 || r.Attempts != 4 || r.Failed != 2 {
		t.Errorf("%+v", r)
	}
	if r.Amplification != 1.2 || r.Bound == nil || !r.Bound.Kept {
		t.Errorf("amplification %v, bound %+v", r.Amplification, r.Bound)
	}
}

func TestForeignIdempotencyKeysAndTooManyRequestsAreFaults(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	list := embedded(t)[:1]
	o := Options{Deliveries: list, Store: store, Set: compiled(t, Policy())}
	settled(t, o, job.KindComplete)
	for name, c := range map[string]struct {
		requests, strays int
		good             bool
	}{"kept": {361, 0, true}, "too many requests": {362, 0, false}, "another key": {2, 1, false}} { // 1.2 + 3·120
		counts := Counts{Requests: c.requests, Strays: c.strays, Accepted: map[string]int{list[0].ID: 1}}
		if r, err := newReport(t.Context(), o, ending{"", counts, time.Second}); err != nil || r.Good() != c.good {
			t.Errorf("%s: good is %v, %v", name, r.Good(), err)
		}
	}
}

func TestJobsPointAtTheEndpointAndNameTheirDelivery(t *testing.T) {
	d := embedded(t)[0]
	l, err := d.line("127.0.0.1:99")
	if err != nil {
		t.Fatal(err)
	}
	payload := string(l.Payload)
	for _, want := range []string{`"url":"http://127.0.0.1:99/hooks/`, `"Demo-Delivery":"` + d.ID + `"`, `"expect_status":[`} {
		if !strings.Contains(payload, want) {
			t.Errorf("%s misses %s", payload, want)
		}
	}
	if l.UniqueKey != d.ID || l.Queue != d.Queue || l.Type != "http" {
		t.Errorf("%+v", l)
	}
}

func TestAStoreWithJobsIsRejected(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	if _, err := job.NewClient(store).Enqueue(t.Context(), job.Request{Type: "other"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{Deliveries: embedded(t)[:1], Store: store}); !errors.Is(err, ErrNotEmpty) {
		t.Error(err)
	}
}

func TestTheShownJobsHaveTheMostAttempts(t *testing.T) {
	story := func(id string, state job.State, outcomes ...job.AttemptOutcome) Story {
		s := Story{Job: &job.Record{ID: id, State: state}}
		for _, o := range outcomes {
			s.History = append(s.History, job.Attempt{Outcome: o, Worker: "host/7/x"})
		}
		return s
	}
	var p picker
	for _, s := range []Story{
		story("plain", job.Completed, job.AttemptCompleted),
		story("hard", job.Completed, job.AttemptFailed, job.AttemptCompleted),
		story("harder", job.Completed, job.AttemptFailed, job.AttemptFailed, job.AttemptCompleted),
		story("crashed", job.Completed, job.AttemptLost, job.AttemptCompleted),
		story("dead", job.Dead, job.AttemptFailed),
	} {
		p.look(s, "/7/")
	}
	var ids []string
	for _, s := range p.stories() {
		ids = append(ids, s.Job.ID)
	}
	if !slices.Equal(ids, []string{"crashed", "harder", "dead"}) {
		t.Errorf("%v", ids)
	}
}
