package models

import (
	"errors"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenetdev/tenet/job"
)

// LeaseCall is an operation on the lease of a job, for the checker. Times are nanoseconds since the start of the case.
type LeaseCall struct {
	What  string // claim, settle, extend
	ID    string
	Fence int64
	At    int64
}

// LeaseAnswer is the result of a LeaseCall.
type LeaseAnswer struct {
	Err error
	At  int64
}

// leaseState is the checker's knowledge of a job. The lease ends somewhere between two times, because only the store knows
// when between call and answer it was granted. The history does not contain reclaiming by Maintain.
type leaseState struct {
	fence            int64
	running          bool
	earliest, latest int64
	settled          [8]uint64 // tokens, as a set
}

func (l leaseState) has(fence int64) bool { return l.settled[fence/64]>>(fence%64)&1 == 1 }

// Lease defines the answers that a store may give. A claim is legal only if no lease can be live. A token is valid only
// while its lease may be live and no newer one was granted, and may repeat its settlement.
func Lease(lease time.Duration) porcupine.Model {
	return porcupine.Model{
		Partition: partition(func(input any) string { return input.(LeaseCall).ID }),
		Init:      func() any { return leaseState{} },
		Step: func(state, input, output any) (bool, any) {
			return leaseStep(state.(leaseState), input.(LeaseCall), output.(LeaseAnswer), int64(lease))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
}

func leaseStep(l leaseState, call LeaseCall, answer LeaseAnswer, lease int64) (bool, leaseState) {
	mayLive := l.running && call.At < l.latest
	mayBeOver := l.running && answer.At >= l.earliest
	leased := l
	leased.running, leased.fence, leased.earliest, leased.latest = true, call.Fence, call.At+lease-slack, answer.At+lease+slack
	over := l
	over.running = false
	switch {
	case call.What == "claim":
		return call.Fence == l.fence+1 && (!l.running || mayBeOver), leased
	case call.What == "settle" && l.has(call.Fence):
		return answer.Err == nil, l
	case errors.Is(answer.Err, job.ErrNotRunning):
		return !l.running || mayBeOver, over
	case errors.Is(answer.Err, job.ErrLeaseExpired):
		return mayBeOver, l
	case errors.Is(answer.Err, job.ErrFenced):
		return mayLive && call.Fence != l.fence, l
	case answer.Err != nil || !mayLive || call.Fence != l.fence:
		return false, l
	case call.What == "extend":
		return true, leased
	}
	over.settled[call.Fence/64] |= 1 << (call.Fence % 64)
	return true, over
}
