package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/sharing"
)

func storeCases() []limitsCase {
	return []limitsCase{
		{"B1/a limit without a state has version 0", newLimit},
		{"B1/a state is stored only over the version that it replaces", staleVersion},
		{"B1/each state of an exchange stands for itself", separateStates},
		{"B1/a state holds any bytes", anyBytes},
		{"B1/names and states out of bounds are refused", outOfBounds},
		{"B1/the store's clock is the same for all handles", oneClock},
		{"B1/a cancelled exchange fails", cancelledExchange},
		{"B1/concurrent exchanges are linearizable", linearizableStates},
	}
}

func (s *limits) load(handle sharing.Store, names ...string) []sharing.State {
	s.Helper()
	snapshot, err := handle.Load(s.ctx, names)
	s.ok(err)
	same(s, "states for as many names", len(snapshot.States), len(names))
	return snapshot.States
}

func (s *limits) swap(handle sharing.Store, states ...sharing.State) []bool {
	s.Helper()
	stored, err := handle.Swap(s.ctx, states)
	s.ok(err)
	return stored
}

func newLimit(s *limits) {
	got := s.load(s, "a", "b", "a")
	noDiff(s, "states", cmp.Diff([]sharing.State{{Name: "a"}, {Name: "b"}, {Name: "a"}}, got))
	if snapshot, err := s.Load(s.ctx, nil); err != nil || len(snapshot.States) > 0 || snapshot.Now.IsZero() {
		s.Errorf("no names: %+v, %v", snapshot, err)
	}
	same(s, "states of an empty exchange", len(s.swap(s)), 0)
}

func staleVersion(s *limits) {
	first := sharing.State{Name: "a", Data: []byte("one")}
	same(s, "a new state is stored", s.swap(s, first)[0], true)
	same(s, "a second first state is stored", s.swap(s.second, first)[0], false)
	now := s.load(s.second, "a")[0]
	if now.Version == 0 || string(now.Data) != "one" {
		s.Fatalf("the state is %+v", now)
	}
	next := sharing.State{Name: "a", Version: now.Version, Data: []byte("two")}
	same(s, "the next state is stored", s.swap(s.second, next)[0], true)
	same(s, "a state is stored over a newer one", s.swap(s, next)[0], false)
	same(s, "a state is stored over none", s.swap(s, sharing.State{Name: "never", Version: 3, Data: []byte("x")})[0], false)
	if now := s.load(s, "a", "never"); string(now[0].Data) != "two" || now[1].Version != 0 {
		s.Errorf("the states are %+v", now)
	}
}

func separateStates(s *limits) {
	s.swap(s, sharing.State{Name: "b", Data: []byte("old")})
	states := []sharing.State{{Name: "c", Data: []byte("1")}, {Name: "b", Data: []byte("2")}, {Name: "a", Data: []byte("3")}}
	noDiff(s, "stored", cmp.Diff([]bool{true, false, true}, s.swap(s, states...)))
	got := lists.Map(s.load(s.second, "a", "b", "c"), func(state sharing.State) string { return string(state.Data) })
	noDiff(s, "states", cmp.Diff([]string{"3", "old", "1"}, got))
}

func anyBytes(s *limits) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	long := bytes.Repeat([]byte("x"), 100_000)
	name := strings.Repeat("ü", sharing.MaxName/2)
	if got := s.swap(s, sharing.State{Name: "all'\";--", Data: all}, sharing.State{Name: name, Data: long}); !got[0] || !got[1] {
		s.Fatal("refused")
	}
	got := s.load(s.second, "all'\";--", name)
	if !bytes.Equal(got[0].Data, all) || !bytes.Equal(got[1].Data, long) {
		s.Errorf("%d and %d bytes came back changed", len(got[0].Data), len(got[1].Data))
	}
}

func outOfBounds(s *limits) {
	for want, state := range map[error]sharing.State{
		sharing.ErrName: {Name: strings.Repeat("n", sharing.MaxName+1), Data: []byte("x")},
		sharing.ErrData: {Name: "n", Data: make([]byte, sharing.MaxData+1)},
	} {
		s.must(errorOf(s.Swap(s.ctx, []sharing.State{{Name: "good", Data: []byte("x")}, state})), want)
	}
	same(s, "the version of a part of a refused exchange", s.load(s, "good")[0].Version, 0)
}

func oneClock(s *limits) {
	last := time.Time{}
	for i := range 20 {
		snapshot, err := s.handle(i).Load(s.ctx, nil)
		s.ok(err)
		if snapshot.Now.Before(last) {
			s.Fatalf("the clock went from %v to %v", last, snapshot.Now)
		}
		last = snapshot.Now
		time.Sleep(time.Millisecond)
	}
	if d := time.Since(last); d.Abs() > time.Minute {
		s.Errorf("the clock is off by %v", d)
	}
}

func cancelledExchange(s *limits) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.Load(ctx, []string{"a"}); err == nil {
		s.Error("Load with a cancelled context succeeded")
	}
	if _, err := s.Swap(ctx, []sharing.State{{Name: "a", Data: []byte("x")}}); err == nil {
		s.Error("Swap with a cancelled context succeeded")
	}
	s.load(s, "a") // the handle stays usable
}

// stateCall is a Load, or a Swap of data over a version.
type stateCall struct {
	swap    bool
	version int64
	data    string
}

type stateAnswer struct {
	version int64
	data    string
	stored  bool
}

// stateModel is the model of the state of one limit, whose version grows by one with each change.
var stateModel = porcupine.Model{
	Init: func() any { return stateAnswer{} },
	Step: func(state, input, output any) (bool, any) {
		now, call, answer := state.(stateAnswer), input.(stateCall), output.(stateAnswer)
		if !call.swap {
			return now.version == answer.version && now.data == answer.data, now
		}
		if answer.stored != (call.version == now.version) {
			return false, now
		}
		if answer.stored {
			now = stateAnswer{version: now.version + 1, data: call.data}
		}
		return true, now
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
}

func linearizableStates(s *limits) {
	var mu sync.Mutex
	var history []porcupine.Operation
	begin := time.Now()
	atOnce(6, func(client int) {
		handle := s.handle(client)
		record := func(call stateCall, f func() (stateAnswer, error)) stateAnswer {
			at := time.Since(begin)
			answer, err := f()
			end := time.Since(begin)
			s.report("an exchange", err)
			mu.Lock()
			defer mu.Unlock()
			history = append(history, porcupine.Operation{ClientId: client, Input: call, Output: answer, Call: int64(at), Return: int64(end)})
			return answer
		}
		for i := range 25 {
			now := record(stateCall{}, func() (stateAnswer, error) {
				snapshot, err := handle.Load(s.ctx, []string{"n"})
				if err != nil {
					return stateAnswer{}, err
				}
				return stateAnswer{version: snapshot.States[0].Version, data: string(snapshot.States[0].Data)}, nil
			})
			time.Sleep(rand.N(time.Millisecond))
			call := stateCall{swap: true, version: now.version, data: fmt.Sprintf("%d.%d", client, i)}
			record(call, func() (stateAnswer, error) {
				stored, err := handle.Swap(s.ctx, []sharing.State{{Name: "n", Version: call.version, Data: []byte(call.data)}})
				return stateAnswer{stored: err == nil && stored[0]}, err
			})
		}
	})
	explained(s, stateModel, history)
}
