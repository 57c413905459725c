package dlq

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

func TestRates(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "10/s": 100 * time.Millisecond, "120/min": 500 * time.Millisecond, "0.5/s": 2 * time.Second, "60/h": time.Minute} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"10", "10/", "0/s", "-1/s", "NaN/s", "x/s", "1/day", "1e9/s"} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestRequeueKeepsItsRate(t *testing.T) {
	synctest.Test(t, requeueKeepsItsRate)
}

func requeueKeepsItsRate(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	client := job.NewClient(store)
	var ids []string
	for range 5 {
		receipt, err := client.Enqueue(t.Context(), job.Request{Type: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, receipt.ID)
	}
	claimed, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "default", Free: 5}}, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range claimed {
		if errs := store.Settle(t.Context(), []job.Settlement{{Ref: r.Ref(), Kind: job.KindDead, Error: "x"}}); errs != nil && errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	began := time.Now()
	n, err := requeueIDs(t.Context(), store, ids, 20*time.Millisecond)
	if err != nil || n != 5 || time.Since(began) != 80*time.Millisecond {
		t.Errorf("%d requeued in %v: %v", n, time.Since(began), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := requeueIDs(ctx, store, ids, time.Hour); n != 0 || err == nil {
		t.Errorf("after the context ended: %d, %v", n, err)
	}
}
