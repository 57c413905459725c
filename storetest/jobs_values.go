package storetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/job"
)

// ignoreUnread leaves out the fields that a claim need not fill in: workers do not read them.
func ignoreUnread() cmp.Option {
	return cmpopts.IgnoreFields(job.Record{}, "LastError", "FailedAt", "Reason", "Output", "FinishedAt", "RefusedReason", "RefusedAt")
}

// allBytes is a payload that no encoding of text survives.
func allBytes() []byte {
	b := make([]byte, 512)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// oddMeta returns metadata that is hard to quote and encode.
func oddMeta() map[string]string {
	return map[string]string{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "": "empty key", "empty value": "", "quotes": `'"\`, "nul": "a\x00b",
		"line": "a\nb\tc", "日本": "ünïcode ☂ \U0001F600", "json": `{"a":[1,null]}`, "html": "<&>\u2028",
	}
}

// valueCases checks that stored values come back unchanged and share no memory with the caller.
func valueCases() []jobsCase {
	return []jobsCase{
		{name: "J18/a job comes back unchanged", run: func(s *jobs) {
			runAt := s.clock().Add(-time.Hour)
			in := job.Insert{
				ID: newID(), Type: "email:send 'ü'", Queue: "Mails/\"x\" ü", Priority: 7, Payload: allBytes(), Meta: oddMeta(), Timeout: 1500001 * time.Microsecond,
				MaxAttempts: 1 << 30, RunAt: runAt, UniqueKey: "k",
			}
			s.add(in)
			got := s.record(in.ID)
			want := job.New(in, got.CreatedAt)
			noDiff(s, "stored", cmp.Diff(want, got, cmpopts.EquateEmpty()))
			claimed := s.claims(in.Queue, 1)
			want.Claim("w", long, claimed[0].ClaimedAt)
			noDiff(s, "claimed", cmp.Diff(want, claimed[0], cmpopts.EquateEmpty(), ignoreUnread()))
			want.Fence = 0 // J26
			noDiff(s, "stored after the claim", cmp.Diff(want, s.record(in.ID), cmpopts.EquateEmpty()))
			if listed := s.list(job.Filter{IDs: []string{in.ID}}); len(listed) != 1 || !cmp.Equal(want, listed[0], cmpopts.EquateEmpty()) {
				s.Fatalf("listed: %+v", listed)
			}
		}},
		{name: "J18/payloads of any size and none", run: func(s *jobs) {
			for _, payload := range [][]byte{nil, {}, {0}, []byte("null"), []byte(strings.Repeat("é", 1<<19))} {
				r := s.start(job.Insert{Payload: payload}, long)
				if string(r.Payload) != string(payload) || string(s.record(r.ID).Payload) != string(payload) {
					s.Errorf("a payload of %d bytes came back as %d", len(payload), len(r.Payload))
				}
				s.must(s.settle(r.Ref(), job.KindComplete, func(x *job.Settlement) { x.Output = payload }), nil)
				if got := s.record(r.ID).Output; string(got) != string(payload) {
					s.Errorf("an output of %d bytes came back as %d", len(payload), len(got))
				}
			}
		}},
		{name: "J2/times are UTC and truncated to microseconds", run: func(s *jobs) {
			zone := time.FixedZone("east", 5*3600+1800)
			at := s.clock().Add(-time.Minute).In(zone).Add(1234567 * time.Nanosecond)
			r := s.start(job.Insert{RunAt: at}, 1234567891*time.Nanosecond)
			if !r.RunAt.Equal(job.Stamp(at)) {
				s.Errorf("run_at %v, want %v", r.RunAt, job.Stamp(at))
			}
			s.must(s.settle(r.Ref(), job.KindRetry, fails("x", 1234567891*time.Nanosecond)), nil)
			got, history := s.job(r.ID)
			times := []time.Time{r.LeaseUntil, r.ClaimedAt, got.CreatedAt, got.RunAt, got.StartedAt, got.FailedAt, history[0].Started, history[0].Finished}
			for i, at := range times {
				if at.Location() != time.UTC || at.Nanosecond()%1000 != 0 {
					s.Errorf("time %d is %v", i, at)
				}
			}
		}},
		{name: "J1/the store keeps copies of what it stores", run: func(s *jobs) {
			payload, meta, output := []byte("payload"), map[string]string{"k": "v"}, []byte("output")
			id := s.add(job.Insert{Payload: payload, Meta: meta})
			payload[0], meta["k"], meta["more"] = 'X', "changed", "x"
			r := s.take(long)
			s.must(s.settle(r.Ref(), job.KindComplete, func(x *job.Settlement) { x.Output = output }), nil)
			output[0] = 'X'
			got := s.record(id)
			if string(got.Payload) != "payload" || string(got.Output) != "output" || !cmp.Equal(got.Meta, map[string]string{"k": "v"}) {
				s.Fatalf("the store shares memory with its caller: %+v", got)
			}
		}},
		{name: "J1/the store returns copies", run: func(s *jobs) {
			id := s.add(job.Insert{Payload: []byte("payload"), Meta: map[string]string{"k": "v"}})
			spoil := func(list ...*job.Record) {
				for _, r := range list {
					r.State, r.Fence, r.Failures, r.LastError, r.Queue = job.Dead, 99, 99, "spoilt", "spoilt"
					r.Payload[0], r.Meta["k"] = 'X', "spoilt"
					if len(r.Output) > 0 {
						r.Output[0] = 'X'
					}
				}
			}
			spoil(s.record(id))
			spoil(s.list(job.Filter{})...)
			r := s.take(long)
			ref := r.Ref()
			spoil(r)
			s.must(s.settle(ref, job.KindRelease), nil)
			_, history := s.job(id)
			history[0].Kind, history[0].Outcome = job.KindDead, job.AttemptLost
			s.must(s.settle(s.take(long).Ref(), job.KindComplete, func(x *job.Settlement) { x.Output = []byte("output") }), nil)
			spoil(s.record(id))
			got, history := s.job(id)
			if got.State != job.Completed || string(got.Payload) != "payload" || string(got.Output) != "output" || got.Meta["k"] != "v" || history[0].Kind != job.KindRelease {
				s.Fatalf("the store shares memory with its caller: %+v, %+v", got, history)
			}
		}},
		{name: "J1/a cancelled context does nothing", run: func(s *jobs) {
			running := s.start(job.Insert{}, long)
			waiting := s.add(job.Insert{})
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			in := job.Insert{}
			fill(&in)
			_, enqueue := s.Enqueue(ended, []job.Insert{in})
			_, claim := s.Claim(ended, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 1}}, Lease: long})
			_, maintain := s.Maintain(ended, job.Maintenance{Limit: 1})
			extend := oneError(s, s.Extend(ended, []job.Ref{running.Ref()}, 2*long))
			settle := oneError(s, s.Settle(ended, []job.Settlement{{Ref: running.Ref(), Kind: job.KindComplete}}))
			for name, err := range map[string]error{"Enqueue": enqueue, "Claim": claim, "Maintain": maintain, "Extend": extend, "Settle": settle} {
				if !errors.Is(err, context.Canceled) {
					s.Errorf("%s: %v, want %v", name, err, context.Canceled)
				}
			}
			s.in(running.ID, job.Running)
			s.in(waiting, job.Ready)
			if _, _, err := s.Get(s.ctx, in.ID); !errors.Is(err, job.ErrNotFound) {
				s.Errorf("the job was stored: %v", err)
			}
		}},
		{name: "J1/a closed store returns ErrClosed", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			s.closed = true
			s.must(s.Close(), nil)
			_, enqueue := s.Enqueue(s.ctx, []job.Insert{{ID: newID(), Type: "t", Queue: queue}})
			_, claim := s.Claim(s.ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 1}}, Lease: long})
			_, maintain := s.Maintain(s.ctx, job.Maintenance{Limit: 1})
			_, _, get := s.Get(s.ctx, r.ID)
			_, list := s.List(s.ctx, job.Filter{}, "", 1)
			_, stats := s.Stats(s.ctx)
			_, change := s.Change(s.ctx, job.ActionRetry, job.Filter{}, 1)
			_, queues := s.Queues(s.ctx)
			for name, err := range map[string]error{
				"Enqueue": enqueue, "Claim": claim, "Maintain": maintain, "Get": get, "List": list, "Stats": stats, "Change": change, "Queues": queues,
				"Extend":   oneError(s, s.Extend(s.ctx, []job.Ref{r.Ref()}, long)),
				"Settle":   oneError(s, s.Settle(s.ctx, []job.Settlement{{Ref: r.Ref(), Kind: job.KindComplete}})),
				"SetQueue": s.SetQueue(s.ctx, job.QueueState{Queue: queue, Paused: true}),
			} {
				if !errors.Is(err, job.ErrClosed) {
					s.Errorf("%s: %v, want %v", name, err, job.ErrClosed)
				}
			}
		}},
	}
}
