package client_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

func TestJ23ARedriveOfAServerIsThatOfItsStore(t *testing.T) {
	e := start(t, nil, policystore.ScopeRead, policystore.ScopeOperate)
	store, served := e.db.Jobs(), e.Jobs()
	for range 3 {
		if _, err := job.NewClient(store).Enqueue(t.Context(), job.Request{Type: "t", Queue: "q"}); err != nil {
			t.Fatal(err)
		}
	}
	claimed, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 3}}, Lease: job.DefaultLease})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range claimed {
		if errs := store.Settle(t.Context(), []job.Settlement{{Ref: r.Ref(), Kind: job.KindDead, Error: "boom"}}); errs != nil {
			t.Fatal(errs)
		}
	}
	f := job.Filter{Queue: "q", ErrorContains: "boom"}
	groups, err := served.PreviewRedrive(t.Context(), f)
	if diff := cmp.Diff([]job.RedriveGroup{{Queue: "q", Type: "t", Jobs: 3}}, groups); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	want, err := store.Causes(t.Context(), job.CauseQuery{Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	got, err := served.Causes(t.Context(), job.CauseQuery{Filter: f})
	if diff := cmp.Diff(want, got); diff != "" || err != nil || len(got.Groups) != 1 {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	plan := job.RedrivePlan{Rate: 2, Canary: 1, StopShare: 0.5, StopLeast: 2, MaxPending: 7}
	made, err := served.CreateRedrive(t.Context(), job.NewRedrive{Filter: f, RedrivePlan: plan})
	if err != nil {
		t.Fatal(err)
	}
	if made.Total != 3 || made.RedrivePlan != plan || made.Actor != "token:test" {
		t.Errorf("%+v", made)
	}
	if _, _, err := store.StepRedrive(t.Context(), made.ID, 1); err != nil {
		t.Fatal(err)
	}
	for _, action := range []job.RedriveAction{job.RedrivePause, job.RedriveSetRate, job.RedriveResume, job.RedriveUndo} {
		got, err := served.UpdateRedrive(t.Context(), made.ID, job.RedriveChange{Action: action, Rate: 4})
		want, other := store.Redrive(t.Context(), made.ID)
		if err != nil || other != nil {
			t.Fatal(action, err, other)
		}
		for name, get := range map[string]func() (job.Redrive, error){
			"changed": func() (job.Redrive, error) { return got, nil },
			"read":    func() (job.Redrive, error) { return served.Redrive(t.Context(), made.ID) },
			"listed": func() (job.Redrive, error) {
				list, err := served.Redrives(t.Context(), job.RedriveQuery{Active: true})
				if err != nil || len(list) != 1 {
					t.Fatal(action, list, err)
				}
				return list[0], nil
			},
		} {
			r, err := get()
			if r.Active() != want.Active() {
				t.Errorf("%s after %s: active %t", name, action, r.Active())
			}
			if diff := cmp.Diff(want, r, cmpopts.IgnoreFields(job.Redrive{}, "Progress")); diff != "" || err != nil {
				t.Errorf("%s after %s: %v (-want +got):\n%s", name, action, err, diff)
			}
		}
	}
	if _, err := served.UpdateRedrive(t.Context(), made.ID, job.RedriveChange{Action: job.RedriveResume}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("resume of an aborted redrive: %v", err)
	}
	if _, err := served.Redrive(t.Context(), "none"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("no redrive: %v", err)
	}
	if _, err := served.CreateRedrive(t.Context(), job.NewRedrive{Filter: job.Filter{Queue: "none"}}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("no job: %v", err)
	}
}
