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
	"github.com/tenetdev/tenet/storetest/internal/models"
)

// keyHistory records the operations of callers in one process or several.
type keyHistory struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

func (h *keyHistory) add(caller int, call models.KeyCall, answer models.KeyAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answer.Pending {
		answer.At = math.MaxInt64
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: caller, Input: call, Call: call.At, Output: answer, Return: answer.At})
}

// keyCaller begins, renews and settles at random, sometimes too late, and reports what it does.
type keyCaller struct {
	store    idempotency.Store
	name     string
	keys     []string
	lease    time.Duration
	called   func(models.KeyCall)
	answered func(models.KeyCall, models.KeyAnswer)
}

// run runs a number of rounds or, if that is 0, until ctx ends. An unexpected error of the store ends it.
func (c *keyCaller) run(ctx context.Context, rounds int) error {
	for i := 0; (rounds == 0 || i < rounds) && ctx.Err() == nil; i++ {
		id := idempotency.ID{Operation: "linearizable", Key: c.keys[rand.IntN(len(c.keys))]}
		call := models.KeyCall{What: "begin", Key: id.Key, Owner: fmt.Sprintf("%s-%d", c.name, i), ReplaySafe: rand.IntN(8) > 0}
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
	call := models.KeyCall{Key: claim.Key, Owner: claim.Owner, Fence: claim.Fence}
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
func (c *keyCaller) do(call models.KeyCall, f func() error, begun *idempotency.Begun) (models.KeyAnswer, error) {
	call.At = time.Now().UnixNano()
	c.called(call)
	err := f()
	answer := models.KeyAnswer{At: time.Now().UnixNano(), Fenced: errors.Is(err, idempotency.ErrFenced)}
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
		answer := op.Output.(models.KeyAnswer)
		switch {
		case answer.Pending:
			counts["pending"]++
		case answer.Fenced:
			counts["fenced"]++
		default:
			counts[op.Input.(models.KeyCall).What+" "+answer.Verdict]++
		}
	}
	s.Logf("%d operations: %v", len(h.ops), counts)
	slices.SortFunc(h.ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	explained(s, models.Keys(lease), h.ops)
	return counts
}

// linearizableKeys runs concurrent callers in one process.
func linearizableKeys(s *keys) {
	lease := s.contestedLease()
	s.linearizable(lease, func(history *keyHistory) {
		var names []string
		for range 12 {
			names = append(names, newKey().Key)
		}
		s.together(concurrent, func(store idempotency.Store, i int) {
			caller := keyCaller{
				store: store, name: fmt.Sprintf("caller-%s-%d", run, i), keys: names[i%3*4 : i%3*4+4], lease: lease,
				called: func(models.KeyCall) {}, answered: func(call models.KeyCall, answer models.KeyAnswer) { history.add(i, call, answer) },
			}
			s.report("a caller", caller.run(s.ctx, 40))
		})
	})
}

// keyLine is a line that a caller in another process writes: a call that begins, or one that has been answered.
type keyLine struct {
	Caller int               `json:"caller"`
	Call   models.KeyCall    `json:"call"`
	Answer *models.KeyAnswer `json:"answer,omitempty"`
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
