package models

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenetdev/tenet/idempotency"
)

// KeyCall is an operation on the record of a key, for the checker. Times are nanoseconds of the machine's clock.
type KeyCall struct {
	What       string `json:"what"` // begin, settle, renew
	Key        string `json:"key"`
	Owner      string `json:"owner"`
	Fence      int64  `json:"fence,omitempty"`
	ReplaySafe bool   `json:"replay_safe,omitempty"`
	State      string `json:"state,omitempty"` // that a settlement sets
	At         int64  `json:"at"`
}

// KeyAnswer is the result of a KeyCall. Pending means that the caller was killed and the result is not known.
type KeyAnswer struct {
	Verdict string `json:"verdict,omitempty"`
	Fence   int64  `json:"fence,omitempty"`
	Fenced  bool   `json:"fenced,omitempty"`
	At      int64  `json:"at"`
	Pending bool   `json:"-"`
}

// keyState is the checker's knowledge of a record. The lease ends somewhere between two times, because only the store knows
// when between call and answer it was granted.
type keyState struct {
	state            idempotency.State // "" is absent
	owner            string
	fence            int64
	earliest, latest int64
}

// Keys defines the answers that a store may give to begins, settlements and renewals under a lease. If the clocks or a
// killed caller leave the outcome open, it follows every possible one.
func Keys(lease time.Duration) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Partition: partition(func(input any) string { return input.(KeyCall).Key }),
		Init:      func() []any { return []any{keyState{}} },
		Step: func(state, input, output any) []any {
			var next []any
			for _, s := range state.(keyState).step(input.(KeyCall), output.(KeyAnswer), int64(lease)) {
				next = append(next, s)
			}
			return next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
	return model.ToModel()
}

// step lists the states that can follow.
func (k keyState) step(call KeyCall, answer KeyAnswer, lease int64) (next []keyState) {
	if answer.Pending {
		next = append(next, k) // the call did not reach the store
	}
	mayLive := k.state == idempotency.InFlight && call.At < k.latest
	mayBeOver := k.state == idempotency.InFlight && answer.At >= k.earliest
	leased := func(owner string, fence int64) keyState {
		until := answer.At
		if !answer.Pending {
			until += lease + slack
		}
		return keyState{state: idempotency.InFlight, owner: owner, fence: fence, earliest: call.At + lease - slack, latest: until}
	}
	mine := k.state != "" && k.owner == call.Owner && k.fence == call.Fence
	// can follows a possible course of events if the answer fits it.
	can := func(possible bool, fits bool, to keyState) {
		if possible && (answer.Pending || fits) {
			next = append(next, to)
		}
	}
	verdict := idempotency.Verdict(answer.Verdict)
	switch call.What {
	case "begin":
		fence := k.fence + 1
		if k.fence == 0 { // the first one is up to the store, and not known if the call was not answered
			fence = answer.Fence
		}
		claimed := leased(call.Owner, fence)
		unknown := keyState{state: idempotency.Unknown, owner: k.owner, fence: k.fence}
		can(k.state == "" || k.state == idempotency.Released, verdict == idempotency.Run && answer.Fence == claimed.fence, claimed)
		can(mayBeOver && call.ReplaySafe, verdict == idempotency.Run && answer.Fence == claimed.fence, claimed)
		can(mayBeOver && !call.ReplaySafe, verdict == idempotency.Undecidable, unknown)
		can(mayLive, verdict == idempotency.Busy, k)
		can(k.state == idempotency.Unknown, verdict == idempotency.Undecidable, k)
		can(k.state == idempotency.Completed, verdict == idempotency.Replay, k)
		can(k.state == idempotency.Failed, verdict == idempotency.Refuse, k)
	case "settle":
		to := keyState{state: idempotency.State(call.State), owner: k.owner, fence: k.fence}
		open := k.state == idempotency.InFlight || k.state == idempotency.Unknown
		can(mine && (open || k.state == to.state), !answer.Fenced, to)
		can(!mine || !open && k.state != to.state, answer.Fenced, k)
	case "renew":
		can(mine && k.state == idempotency.InFlight, !answer.Fenced, leased(k.owner, k.fence))
		can(!mine || k.state != idempotency.InFlight, answer.Fenced, k)
	}
	return next
}
