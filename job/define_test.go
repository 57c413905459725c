package job_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

type invoice struct{ Number int }

var payInvoice = job.Define[invoice]("invoice:pay", job.WithQueue("billing"), job.WithAttempts(5),
	job.WithMeta(map[string]string{"team": "money", "tenant_id": "none"}))

func TestJ9ADefinitionFillsRequestsAndTheCallsOptionsWin(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	got := payInvoice.Request(invoice{7}, job.WithQueue("late"), job.WithRunAt(at), job.WithPriority(3), job.WithTimeout(time.Minute),
		job.WithUniqueKey("i7"), job.WithUniqueFor(time.Hour), job.WithMeta(map[string]string{"tenant_id": "acme"}),
		func(r *job.Request) { r.MaxPayload = 99 })
	want := job.Request{
		Type: "invoice:pay", Payload: invoice{7}, MaxPayload: 99, Queue: "late", RunAt: at, MaxAttempts: 5, Priority: 3,
		UniqueKey: "i7", UniqueFor: time.Hour, Timeout: time.Minute, Meta: map[string]string{"team": "money", "tenant_id": "acme"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	plain := job.Request{Type: "invoice:pay", Payload: invoice{8}, Queue: "billing", MaxAttempts: 5, Meta: map[string]string{"team": "money", "tenant_id": "none"}}
	if diff := cmp.Diff(plain, payInvoice.Request(invoice{8})); diff != "" {
		t.Errorf("the next request contains values of the previous one:\n%s", diff)
	}
}

func TestJ9ADefinitionKeepsItsOwnOptions(t *testing.T) {
	options := []job.EnqueueOption{job.WithQueue("a")}
	d := job.Define[int]("x", options...)
	options[0] = job.WithQueue("b")
	if r := d.Request(1); r.Queue != "a" {
		t.Errorf("the queue of a definition became %q", r.Queue)
	}
}

func TestJ9ADefinedJobReachesItsHandlerWithItsPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Jobs()
		client := job.NewClient(store)
		raw := job.Define[[]byte]("raw")
		w := job.NewWorker(store, quiet, job.WithQueues(map[string]int{"billing": 1, job.DefaultQueue: 1}))
		var paid []invoice
		var bytes [][]byte
		start := time.Now()
		payInvoice.Handle(w, func(_ context.Context, j job.Job[invoice]) error {
			if waited := time.Since(start); waited < time.Hour {
				t.Errorf("ran after %v", waited)
			}
			paid = append(paid, j.Payload)
			return nil
		})
		raw.Handle(w, func(_ context.Context, j job.Job[[]byte]) error {
			bytes = append(bytes, j.Payload)
			return nil
		})
		if _, err := payInvoice.Enqueue(t.Context(), client, invoice{7}, job.WithDelay(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Enqueue(t.Context(), client, []byte("not\x00JSON")); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
		defer stop()
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]invoice{{7}}, paid); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([][]byte{[]byte("not\x00JSON")}, bytes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestJ18ARequestsOwnPayloadLimitWins(t *testing.T) {
	client := job.NewClient(memory.Open().Jobs(), job.WithMaxPayload(10))
	long := "a payload of more than ten bytes"
	if _, err := client.Enqueue(t.Context(), job.Request{Type: "t", Payload: long, MaxPayload: 100}); err != nil {
		t.Error(err)
	}
	_, err := job.Inserts([]job.Request{{Type: "t", Payload: long}, {Type: "t", Payload: long, MaxPayload: 5}})
	want := &job.PayloadTooLargeError{Index: 1, Size: len(long) + 2, Limit: 5}
	if diff := cmp.Diff(error(want), err, cmpopts.EquateComparable()); diff != "" {
		t.Error(diff)
	}
}

func TestJ21ADefinedTypeIsHandledInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := job.NewWorker(b.store, quiet, job.WithQueues(map[string]int{"billing": 10}))
		var paid []invoice
		payInvoice.HandleBatch(w, job.BatchOptions{}, func(_ context.Context, jobs []job.Job[invoice]) []error {
			for _, j := range jobs {
				paid = append(paid, j.Payload)
			}
			return make([]error, len(jobs))
		})
		for n := range 2 {
			if _, err := payInvoice.Enqueue(t.Context(), b.client, invoice{n}); err != nil {
				t.Fatal(err)
			}
		}
		stop := b.run(w)
		time.Sleep(time.Second)
		stop()
		if len(paid) != 2 || paid[0] == paid[1] {
			t.Errorf("paid %v", paid)
		}
	})
}
