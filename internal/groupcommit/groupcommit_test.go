package groupcommit_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/internal/groupcommit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOperationsQueueWhileAGroupIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		var groups [][]int
		q := groupcommit.Queue[int]{Limit: 10, Size: func(n int) int { return n }, Commit: func(group []int) {
			groups = append(groups, group)
			<-first
		}}
		q.Add(1)
		synctest.Wait()
		for _, n := range []int{4, 5, 2, 11, 3} {
			q.Add(n)
		}
		close(first)
		q.Close()
		if want := [][]int{{1}, {4, 5}, {2}, {11}, {3}}; !slices.EqualFunc(groups, want, slices.Equal) {
			t.Errorf("groups %v, want %v", groups, want)
		}
		if q.Add(1) || !q.Closed() {
			t.Error("a closed queue accepts operations")
		}
	})
}

func TestEveryOperationIsCommittedOnceByOneGoroutineAtATime(t *testing.T) {
	const callers, each = 16, 500
	seen := map[int]int{} // no lock: the race detector reports concurrent commits
	q := groupcommit.Queue[int]{Limit: 7, Commit: func(group []int) {
		for _, n := range group {
			seen[n]++
		}
		if len(group) > 7 {
			t.Errorf("a group of %d", len(group))
		}
	}}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for n := range each {
				q.Add(caller*each + n)
			}
		})
	}
	all.Wait()
	q.Close()
	for n := range callers * each {
		if seen[n] != 1 {
			t.Fatalf("%d was committed %d times", n, seen[n])
		}
	}
}

func TestATicketIsTakenOrWithdrawn(t *testing.T) {
	stored := groupcommit.NewTicket()
	failed := errors.New("disk full")
	if !stored.Take() || stored.Withdraw() || !stored.Taken() || stored.Withdrawn() {
		t.Error("the caller withdrew an operation that the writer had taken")
	}
	if stored.Settle(failed); <-stored.Done() != failed {
		t.Error("the caller does not get the answer")
	}
	if left := groupcommit.NewTicket(); !left.Withdraw() || left.Take() || left.Taken() || !left.Withdrawn() {
		t.Error("the writer took an operation that the caller had withdrawn")
	}
}
