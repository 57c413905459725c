package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tenetdev/tenet/idempotency"
)

// keyCall is an operation on the record of a key, for the checker. Times are nanoseconds of the machine's clock.
type keyCall struct {
	What       string `json:"what"` // begin, settle, renew
	Key        string `json:"key"`
	Owner      string `json:"owner"`
	Fence      int64  `json:"fence,omitempty"`
	ReplaySafe bool   `json:"replay_safe,omitempty"`
	State      string `json:"state,omitempty"` // that a settlement sets
	At         int64  `json:"at"`
}

// keyAnswer is the result of a keyCall. Pending means that the caller was killed and the result is not known.
type keyAnswer struct {
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

// keyHistory records the operations of callers in one process or several.
type keyHistory struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

func (h *keyHistory) add(caller int, call keyCall, answer keyAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answer.Pending {
		answer.At = math.MaxInt64
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: caller, Input: call, Call: call.At, Output: answer, Return: answer.At})
}

// keysModel defines the answers that a store may give to begins, settlements and renewals under a lease. If the clocks or a
// killed caller leave the outcome open, it follows every possible one.
func keysModel(lease time.Duration) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Partition: partition(func(input any) string { return input.(keyCall).Key }),
		Init:      func() []any { return []any{keyState{}} },
		Step: func(state, input, output any) []any {
			var next []any
			for _, s := range state.(keyState).step(input.(keyCall), output.(keyAnswer), int64(lease)) {
				next = append(next, s)
			}
			return next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
	return model.ToModel()
}

// step lists the states that can follow.
func (k keyState) step(call keyCall, answer keyAnswer, lease int64) (next []keyState) {
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

// keyCaller begins, renews and settles at random, sometimes too late, and reports what it does.
type keyCaller struct {
	store    idempotency.Store
	name     string
	keys     []string
	lease    time.Duration
	called   func(keyCall)
	answered func(keyCall, keyAnswer)
}

// run runs a number of rounds or, if that is 0, until ctx ends. An unexpected error of the store ends it.
func (c *keyCaller) run(ctx context.Context, rounds int) error {
	for i := 0; (rounds == 0 || i < rounds) && ctx.Err() == nil; i++ {
		id := idempotency.ID{Operation: "linearizable", Key: c.keys[rand.IntN(len(c.keys))]}
		call := keyCall{What: "begin", Key: id.Key, Owner: fmt.Sprintf("%s-%d", c.name, i), ReplaySafe: rand.IntN(8) > 0}
		var begun idempotency.Begun
		answer, err := c.do(call, func() (err error) {
			begun, err = c.store.Begin(ctx, idempotency.BeginRequest{
				ID: id, Fingerprint: "f", Owner: call.Owner, Lease: c.lease, ReplaySafe: call.ReplaySafe,
			})
			return err
		}, &begun)
		if err != nil {
			return err
		}
		if idempotency.Verdict(answer.Verdict) != idempotency.Run {
			time.Sleep(rand.N(c.lease / 4))
			continue
		}
		if err := c.work(ctx, begun.Record.Claim()); err != nil {
			return err
		}
	}
	return nil
}

// work renews and settles a claim, sometimes too late and sometimes twice.
func (c *keyCaller) work(ctx context.Context, claim idempotency.Claim) error {
	call := keyCall{Key: claim.Key, Owner: claim.Owner, Fence: claim.Fence}
	for range rand.IntN(3) {
		time.Sleep(rand.N(c.lease))
		call.What = "renew"
		if _, err := c.do(call, func() error { return c.store.Renew(ctx, claim, c.lease) }, nil); err != nil {
			return err
		}
	}
	time.Sleep(rand.N(c.lease * 3 / 2))
	call.What, call.State = "settle", string(idempotency.Released)
	if rand.IntN(25) == 0 {
		call.State = string([]idempotency.State{idempotency.Completed, idempotency.Failed}[rand.IntN(2)])
	}
	settlement := idempotency.Settlement{State: idempotency.State(call.State), TTL: long}
	for range 1 + rand.IntN(2) {
		if _, err := c.do(call, func() error { return c.store.Settle(ctx, claim, settlement) }, nil); err != nil {
			return err
		}
	}
	return nil
}

// do calls the store and reports before and after.
func (c *keyCaller) do(call keyCall, f func() error, begun *idempotency.Begun) (keyAnswer, error) {
	call.At = time.Now().UnixNano()
	c.called(call)
	err := f()
	answer := keyAnswer{At: time.Now().UnixNano(), Fenced: errors.Is(err, idempotency.ErrFenced)}
	if err != nil && !answer.Fenced {
		return answer, fmt.Errorf("%s: %w", call.What, err)
	}
	if begun != nil {
		answer.Verdict, answer.Fence = string(begun.Verdict), begun.Record.Fence
	}
	c.answered(call, answer)
	return answer, nil
}

// linearizable runs and checks random histories until every interleaving of interest has occurred.
func (s *keys) linearizable(lease time.Duration, play func(*keyHistory)) {
	s.Helper()
	for range 10 {
		history := &keyHistory{}
		play(history)
		counts := s.checkKeys(history, lease)
		if counts["fenced"] > 0 && counts["begin run"] >= 10 && counts["begin in_flight"] > 0 || s.Failed() {
			return
		}
	}
	s.Error("nothing was shown: claims, callers in the way and callers that came late are needed")
}

// checkKeys checks a history and counts its answers.
func (s *keys) checkKeys(h *keyHistory, lease time.Duration) (counts map[string]int) {
	s.Helper()
	counts = map[string]int{}
	for _, op := range h.ops {
		answer := op.Output.(keyAnswer)
		switch {
		case answer.Pending:
			counts["pending"]++
		case answer.Fenced:
			counts["fenced"]++
		default:
			counts[op.Input.(keyCall).What+" "+answer.Verdict]++
		}
	}
	s.Logf("%d operations: %v", len(h.ops), counts)
	slices.SortFunc(h.ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	explained(s, keysModel(lease), h.ops)
	return counts
}

// linearizableKeys runs concurrent callers in one process.
func linearizableKeys(s *keys) {
	lease := contestedLease(s.options.Bubble != nil, s.options.Advance != nil, s.short)
	s.linearizable(lease, func(history *keyHistory) {
		var names []string
		for range 12 {
			names = append(names, newKey().Key)
		}
		s.together(concurrent, func(store idempotency.Store, i int) {
			caller := keyCaller{
				store: store, name: fmt.Sprintf("caller-%s-%d", run, i), keys: names[i%3*4 : i%3*4+4], lease: lease,
				called: func(keyCall) {}, answered: func(call keyCall, answer keyAnswer) { history.add(i, call, answer) },
			}
			if err := caller.run(s.ctx, 40); err != nil {
				s.Error(err)
			}
		})
	})
}

// keyLine is a line that a caller in another process writes: a call that begins, or one that has been answered.
type keyLine struct {
	Caller int        `json:"caller"`
	Call   keyCall    `json:"call"`
	Answer *keyAnswer `json:"answer,omitempty"`
}

// writeLines makes a function that writes lines whole, from many goroutines.
func writeLines(w io.Writer) func(any) {
	var mu sync.Mutex
	encoder := json.NewEncoder(w)
	return func(line any) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(line)
	}
}
