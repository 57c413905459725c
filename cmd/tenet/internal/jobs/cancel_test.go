package jobs

import (
	"testing"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

func TestJ25TheCommandSaysWhatBecameOfARequestToCancel(t *testing.T) {
	for kind, want := range map[job.Kind]string{
		"":               "i pending: its worker was asked to cancel it (--wait waits for the end)",
		job.KindCancel:   "i cancelled",
		job.KindComplete: "i completed before it could be cancelled",
		job.KindDead:     "i dead before it could be cancelled",
	} {
		store := memory.Open().Jobs()
		receipt, err := job.NewClient(store).Enqueue(t.Context(), job.Request{Type: "t"})
		if err != nil {
			t.Fatal(err)
		}
		claimed, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: job.DefaultQueue, Free: 1}}, Lease: job.DefaultLease})
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		if _, err := store.Change(t.Context(), job.ActionCancel, job.Filter{IDs: []string{receipt.ID}}, 1); err != nil {
			t.Fatal(err)
		}
		if kind != "" {
			if errs := store.Settle(t.Context(), []job.Settlement{{Ref: claimed[0].Ref(), Kind: kind, Reason: policy.ReasonSuccess}}); errs != nil {
				t.Fatal(errs)
			}
		}
		outcome, err := cancelled(t.Context(), store, receipt.ID, kind != "")
		if got := cancelText("i", outcome); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", kind, got, err, want)
		}
	}
	if outcome, err := cancelled(t.Context(), memory.Open().Jobs(), "none", true); err != nil || outcome != cancelGone {
		t.Errorf("%s, %v", outcome, err)
	}
}
