package models_test

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/storetest/internal/models"
)

// TestI3RecordModel checks that the model accepts allowed answers of a store and rejects others. The lease is 10 ms.
func TestI3RecordModel(t *testing.T) {
	const ms = int64(time.Millisecond)
	op := func(call models.KeyCall, called, answered int64, answer models.KeyAnswer) porcupine.Operation {
		call.Key, call.At, answer.At = "k", called*ms, answered*ms
		if answer.Pending {
			answer.At = 1 << 62
		}
		return porcupine.Operation{Input: call, Call: call.At, Output: answer, Return: answer.At}
	}
	begin := func(owner string, safe bool, called, answered int64, v idempotency.Verdict, fence int64) porcupine.Operation {
		return op(models.KeyCall{What: "begin", Owner: owner, ReplaySafe: safe}, called, answered, models.KeyAnswer{Verdict: string(v), Fence: fence})
	}
	settle := func(owner string, fence int64, s idempotency.State, called, answered int64, fenced bool) porcupine.Operation {
		return op(models.KeyCall{What: "settle", Owner: owner, Fence: fence, State: string(s)}, called, answered, models.KeyAnswer{Fenced: fenced})
	}
	renew := func(owner string, fence, called, answered int64, fenced bool) porcupine.Operation {
		return op(models.KeyCall{What: "renew", Owner: owner, Fence: fence}, called, answered, models.KeyAnswer{Fenced: fenced})
	}
	pending := func(o porcupine.Operation) porcupine.Operation {
		o.Output, o.Return = models.KeyAnswer{Pending: true, At: 1 << 62}, 1<<62
		return o
	}
	const (
		run, busy, unknown, replay, refuse = idempotency.Run, idempotency.Busy, idempotency.Undecidable, idempotency.Replay, idempotency.Refuse
		completed, failed, released        = idempotency.Completed, idempotency.Failed, idempotency.Released
	)
	claim := begin("a", true, 0, 1, run, 1)
	for name, c := range map[string]struct {
		legal   bool
		history []porcupine.Operation
	}{
		"claimed, completed, replayed":         {true, []porcupine.Operation{claim, settle("a", 1, completed, 2, 3, false), begin("b", true, 4, 5, replay, 0)}},
		"claimed, failed, refused":             {true, []porcupine.Operation{claim, settle("a", 1, failed, 2, 3, false), begin("b", true, 4, 5, refuse, 0)}},
		"claimed, released, claimed":           {true, []porcupine.Operation{claim, settle("a", 1, released, 2, 3, false), begin("b", false, 4, 5, run, 2)}},
		"completed and claimed":                {false, []porcupine.Operation{claim, settle("a", 1, completed, 2, 3, false), begin("b", true, 40, 50, run, 2)}},
		"claimed twice under a live lease":     {false, []porcupine.Operation{claim, begin("b", true, 4, 5, run, 2)}},
		"claimed twice under one fence":        {false, []porcupine.Operation{claim, begin("b", true, 20, 21, run, 1)}},
		"in the way while live":                {true, []porcupine.Operation{claim, begin("b", true, 4, 5, busy, 0)}},
		"in the way long after the lease":      {false, []porcupine.Operation{claim, begin("b", true, 20, 21, busy, 0)}},
		"in the way of nothing":                {false, []porcupine.Operation{begin("b", true, 4, 5, busy, 0)}},
		"taken over after the lease":           {true, []porcupine.Operation{claim, begin("b", true, 20, 21, run, 2)}},
		"taken over although not safe":         {false, []porcupine.Operation{claim, begin("b", false, 20, 21, run, 2)}},
		"unknown after the lease":              {true, []porcupine.Operation{claim, begin("b", false, 20, 21, unknown, 0), begin("c", true, 22, 23, unknown, 0)}},
		"unknown before the end of the lease":  {false, []porcupine.Operation{claim, begin("b", false, 4, 5, unknown, 0)}},
		"claimed although unknown":             {false, []porcupine.Operation{claim, begin("b", false, 20, 21, unknown, 0), begin("c", true, 22, 23, run, 2)}},
		"settled late, although unknown":       {true, []porcupine.Operation{claim, begin("b", false, 20, 21, unknown, 0), settle("a", 1, completed, 22, 23, false)}},
		"renewed late, although unknown":       {false, []porcupine.Operation{claim, begin("b", false, 20, 21, unknown, 0), renew("a", 1, 22, 23, false)}},
		"a renewal moves the end":              {false, []porcupine.Operation{claim, renew("a", 1, 8, 9, false), begin("b", true, 14, 15, run, 2)}},
		"a stale owner settled":                {false, []porcupine.Operation{claim, begin("b", true, 20, 21, run, 2), settle("a", 1, completed, 22, 23, false)}},
		"a stale owner fenced":                 {true, []porcupine.Operation{claim, begin("b", true, 20, 21, run, 2), settle("a", 1, completed, 22, 23, true)}},
		"the owner fenced":                     {false, []porcupine.Operation{claim, settle("a", 1, completed, 2, 3, true)}},
		"repeated":                             {true, []porcupine.Operation{claim, settle("a", 1, failed, 2, 3, false), settle("a", 1, failed, 4, 5, false)}},
		"a repetition fenced":                  {false, []porcupine.Operation{claim, settle("a", 1, failed, 2, 3, false), settle("a", 1, failed, 4, 5, true)}},
		"settled twice, otherwise":             {false, []porcupine.Operation{claim, settle("a", 1, failed, 2, 3, false), settle("a", 1, completed, 4, 5, false)}},
		"a wrong fence settled":                {false, []porcupine.Operation{claim, settle("a", 2, completed, 2, 3, false)}},
		"two at once in either order":          {true, []porcupine.Operation{begin("a", true, 0, 5, busy, 0), begin("b", true, 0, 5, run, 1)}},
		"a begin that may have got there":      {true, []porcupine.Operation{pending(claim), begin("b", true, 4, 5, busy, 0)}},
		"a begin that may not have got there":  {true, []porcupine.Operation{pending(claim), begin("b", true, 4, 5, run, 1)}},
		"a settlement that may have got there": {true, []porcupine.Operation{claim, pending(settle("a", 1, completed, 2, 3, false)), begin("b", true, 4, 5, replay, 0)}},
		"a settlement that may have been lost": {true, []porcupine.Operation{claim, pending(settle("a", 1, completed, 2, 3, false)), begin("b", true, 4, 5, busy, 0)}},
		"a lost settlement that was and was not": {false, []porcupine.Operation{
			claim, pending(settle("a", 1, completed, 2, 3, false)), begin("b", true, 4, 5, replay, 0), begin("c", true, 6, 7, busy, 0),
		}},
	} {
		if got := porcupine.CheckOperations(models.Keys(10*time.Millisecond), c.history); got != c.legal {
			t.Errorf("%s: legal = %v", name, got)
		}
	}
}
