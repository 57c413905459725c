package jobs_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/jobs"
	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// remote claims although its answer does not arrive before the caller's context ends, as a server does.
type remote struct {
	*memory.Jobs
	slow time.Duration
}

func (r *remote) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	got, err := r.Jobs.Claim(context.WithoutCancel(ctx), c)
	select {
	case <-time.After(r.slow):
		return got, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestJ6ADrainDuringAClaimUsesUpNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		s := db.Jobs()
		if _, err := job.NewClient(s).Enqueue(t.Context(), job.Request{Type: "x", MaxAttempts: 1}); err != nil {
			t.Fatal(err)
		}
		from := source(t, &remote{s, 100 * time.Millisecond}, jobs.SourceOptions{Lease: 5 * time.Second})
		ran := 0
		task := pipeline.Handle(func(context.Context, *pipeline.Transaction) error { ran++; return nil })
		var p policy.Consumer
		p.Loop.Streaming = true
		c := pipeline.NewConsumer(from, task, p)
		go func() { time.Sleep(50 * time.Millisecond); c.Drain() }()
		if _, err := c.Run(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		if _, err := s.Maintain(t.Context(), job.Maintenance{Limit: 10}); err != nil {
			t.Fatal(err)
		}
		if r := record(t, s); ran == 0 && (r.State != job.Ready || r.Failures != 0) {
			t.Errorf("the task ran %d times; the job is %s with %d failures, %q", ran, r.State, r.Failures, r.LastError)
		}
	})
}

// sealing encodes payloads in a way that it can decode if it has its key.
type sealing struct{ key bool }

func (sealing) Encode(_, _ string, plain []byte) ([]byte, error) {
	data, err := json.Marshal(plain)
	return []byte(job.SealedPrefix + `1,"key":"k","data":` + string(data) + "}"), err
}

func (s sealing) Decode(_ string, text []byte) ([]byte, error) {
	if !s.key {
		return nil, job.ErrNoKey
	}
	var x struct {
		Data []byte `json:"data"`
	}
	err := json.Unmarshal(text, &x)
	return x.Data, err
}

func TestASourceDecodesPayloads(t *testing.T) {
	type order struct{ A int }
	for name, want := range map[string]struct {
		codec job.Codec
		state job.State
		ran   int
	}{
		"no codec": {nil, job.Scheduled, 0}, "no key": {sealing{}, job.Scheduled, 0}, "key": {sealing{true}, job.Completed, 7},
	} {
		s := memory.Open().Jobs()
		if _, err := job.NewClient(s, job.WithCodec(sealing{})).Enqueue(t.Context(), job.Request{Type: "x", MaxAttempts: 1, Payload: order{7}}); err != nil {
			t.Fatal(err)
		}
		got := 0
		task := pipeline.Handle(func(_ context.Context, o order) error { got = o.A; return nil })
		if _, err := pipeline.NewConsumer(source(t, s, jobs.SourceOptions{Codec: want.codec}), task, policy.Consumer{}).Run(t.Context()); err != nil {
			t.Error(err)
		}
		if r := record(t, s); r.State != want.state || got != want.ran || r.Failures != 0 {
			t.Errorf("%s: the task got %d, the job is %s after %d failures", name, got, r.State, r.Failures)
		}
	}
}
