package payload_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/payload"
	"github.com/tenetdev/tenet/policy"
)

// work runs a worker with a codec for some time, and returns the payloads that its handler saw.
func work(t *testing.T, store job.Store, d time.Duration, options ...job.WorkerOption) (seen []string) {
	t.Helper()
	w := job.NewWorker(store, append(options, job.WithLogger(slog.New(slog.DiscardHandler)))...)
	w.HandleRaw("t", func(_ context.Context, j job.Job[[]byte]) error {
		seen = append(seen, string(j.Payload))
		return job.SetOutput(j, "done with "+string(j.Payload))
	})
	job.Handle(w, "last", func(ctx context.Context, j job.Job[string]) error {
		output, err := job.NeedOutput[string](ctx, j, "first")
		seen = append(seen, output)
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	return seen
}

func stored(t *testing.T, store *memory.Jobs, id string) *job.Record {
	t.Helper()
	r, _, err := store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAJobWaitsForAWorkerWithItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Jobs()
		defer store.Close()
		c := codec(keys(t, "k2", "k1"), policy.Codec{Encrypt: true})
		receipt, err := job.NewClient(store, job.WithCodec(c)).Enqueue(t.Context(), job.Request{Type: "t", Payload: "secret", MaxAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		for name, options := range map[string][]job.WorkerOption{
			"no codec": nil, "another key": {job.WithWorkerCodec(codec(keys(t, "k3"), policy.Codec{}))},
		} {
			if seen := work(t, store, 57*time.Second, options...); len(seen) > 0 {
				t.Errorf("%s: the handler saw %s", name, seen)
			}
			r := stored(t, store, receipt.ID)
			if r.State.Finished() || r.Attempts() != 0 || r.Refusals == 0 {
				t.Errorf("%s: the job is %s after %d attempts and %d refusals", name, r.State, r.Attempts(), r.Refusals)
			}
		}
		if seen := work(t, store, time.Minute, job.WithWorkerCodec(c)); len(seen) != 1 || seen[0] != `"secret"` {
			t.Errorf("the handler saw %s", seen)
		}
		r := stored(t, store, receipt.ID)
		if seal, ok := job.ReadSeal(r.Output); r.State != job.Completed || !ok || seal.Key != "k2" {
			t.Errorf("the job is %s with output %s", r.State, r.Output)
		}
	})
}

func TestADamagedPayloadIsDeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Jobs()
		defer store.Close()
		c := codec(keys(t, "k1"), policy.Codec{Encrypt: true})
		moved, err := job.NewClient(store, job.WithCodec(c)).Seal(job.Request{Type: "other", Payload: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		moved[0].Type = "t"
		receipt, err := job.NewClient(store).Enqueue(t.Context(), moved[0])
		if err != nil {
			t.Fatal(err)
		}
		if seen := work(t, store, time.Second, job.WithWorkerCodec(c)); len(seen) > 0 {
			t.Errorf("the handler saw %s", seen)
		}
		if r := stored(t, store, receipt.ID); r.State != job.Dead || r.Reason != policy.ReasonInvalidPayload {
			t.Errorf("the job is %s, %s: %s", r.State, r.Reason, r.LastError)
		}
	})
}

func TestAFlowReadsEncryptedOutputsAndPeriodicJobsAreEncrypted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Jobs()
		defer store.Close()
		c := codec(keys(t, "k1"), policy.Codec{Encrypt: true})
		flow := &job.Flow{ID: "f"}
		flow.Chain(nil, job.FlowJob{Node: "first", Request: job.Request{Type: "t", Payload: 7}}, job.FlowJob{Node: "last", Request: job.Request{Type: "last", Payload: ""}})
		if _, err := job.NewClient(store, job.WithCodec(c)).EnqueueFlow(t.Context(), flow); err != nil {
			t.Fatal(err)
		}
		seen := work(t, store, 90*time.Second, job.WithWorkerCodec(c), job.WithPeriodic(job.Periodic{Name: "p", Cron: "* * * * *", Request: job.Request{Type: "t", Payload: "tick"}}))
		if len(seen) < 3 || seen[0] != "7" || seen[1] != "done with 7" || seen[2] != `"tick"` {
			t.Errorf("the handlers saw %s", seen)
		}
		list, err := store.List(t.Context(), job.Filter{}, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if !job.Sealed(r.Payload) {
				t.Errorf("payload %s of %s is not encrypted", r.Payload, r.Type)
			}
		}
	})
}

// unable is a codec that cannot encode.
type unable struct{ *payload.Codec }

func (unable) Encode(string, string, []byte) ([]byte, error) {
	return nil, errors.New("the keys are missing")
}

func TestJ20AnOutputThatCannotBeEncodedFailsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Jobs()
		defer store.Close()
		c := codec(keys(t, "k1"), policy.Codec{Encrypt: true})
		flow := &job.Flow{ID: "f"}
		flow.Chain(nil, job.FlowJob{Node: "first", Request: job.Request{Type: "t", Payload: 7, MaxAttempts: 2}}, job.FlowJob{Node: "last", Request: job.Request{Type: "last", Payload: ""}})
		receipt, err := job.NewClient(store, job.WithCodec(c)).EnqueueFlow(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		if seen := work(t, store, time.Minute, job.WithWorkerCodec(unable{c})); len(seen) != 2 || seen[1] != "7" {
			t.Errorf("the handlers saw %q, want two attempts of the first job", seen)
		}
		nodes, err := store.FlowNodes(t.Context(), job.NodeQuery{Flow: receipt.ID, Limit: 2})
		if err != nil || len(nodes) != 2 || nodes[0].State != job.Dead || nodes[1].State != job.Cancelled {
			t.Fatalf("%+v, %v", nodes, err)
		}
		r, history, err := store.Get(t.Context(), nodes[0].JobID)
		if err != nil || r.Failures != 2 || len(history) != 2 || !strings.Contains(r.LastError, "its output cannot be encoded: the keys are missing") {
			t.Errorf("%d failures in %d attempts: %q, %v", r.Failures, len(history), r.LastError, err)
		}
	})
}

// TestAnExportedJobIsStoredAsItIs: a payload that is encoded already is not encoded again.
func TestAnExportedJobIsStoredAsItIs(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	c := codec(keys(t, "k1"), policy.Codec{Encrypt: true})
	client := job.NewClient(store, job.WithCodec(c))
	sealed, err := client.Seal(job.Request{Type: "t", Payload: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := client.Enqueue(t.Context(), sealed[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := stored(t, store, receipt.ID).Payload; string(got) != string(sealed[0].Payload.(json.RawMessage)) {
		t.Errorf("%s became %s", sealed[0].Payload, got)
	}
}

// TestJ18AnExportedJobWithALargePayloadIsTakenAgain: the limit is that of the payload before it was sealed.
func TestJ18AnExportedJobWithALargePayloadIsTakenAgain(t *testing.T) {
	store := memory.Open().Jobs()
	client := job.NewClient(store, job.WithCodec(codec(keys(t, strings.Repeat("k", 64)), policy.Codec{Encrypt: true})))
	receipt, err := client.Enqueue(t.Context(), job.Request{Type: "t", Payload: make([]byte, job.DefaultMaxPayload)})
	if err != nil {
		t.Fatal(err)
	}
	exported := stored(t, store, receipt.ID).Payload
	if _, err := job.NewClient(store).Enqueue(t.Context(), job.Request{Type: "t", Payload: json.RawMessage(exported)}); err != nil {
		t.Error(err)
	}
	forged := append([]byte(job.SealedPrefix), make([]byte, 2*job.DefaultMaxPayload)...)
	_, err = client.Enqueue(t.Context(), job.Request{Type: "t", Payload: forged})
	if _, large := errors.AsType[*job.PayloadTooLargeError](err); !large {
		t.Errorf("a forged one: %v", err)
	}
}

// TestJ18TheLimitOfAPayloadIsThatBeforeItWasSealed: the store of a transaction checks sealed requests again.
func TestJ18TheLimitOfAPayloadIsThatBeforeItWasSealed(t *testing.T) {
	client := job.NewClient(memory.Open().Jobs(), job.WithCodec(codec(keys(t, "k1"), policy.Codec{Encrypt: true})))
	sealed, err := client.Seal(job.Request{Type: "t", Payload: make([]byte, job.DefaultMaxPayload)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Inserts(sealed); err != nil {
		t.Error(err)
	}
	_, err = client.Seal(job.Request{Type: "t", Payload: make([]byte, job.DefaultMaxPayload+1)})
	if _, large := errors.AsType[*job.PayloadTooLargeError](err); !large {
		t.Error(err)
	}
}
