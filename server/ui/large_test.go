package ui_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// TestS8PagesOnAMillionJobs logs how long the server takes for the pages of jobs on a million jobs in SQLite. The times depend on
// the machine, and are not judged.
func TestS8PagesOnAMillionJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("stores a million jobs, which takes minutes")
	}
	const jobs = 1_000_000
	s := newSite(t, nil)
	start := time.Now()
	s.fill(jobs)
	t.Logf("stored in %v", time.Since(start).Round(time.Second))
	if err := s.db.Jobs().SetIndex(t.Context(), "payload.order.id", true); err != nil {
		t.Fatal(err)
	}
	dead, err := s.db.Jobs().List(t.Context(), deadJobs, "", 1)
	if err != nil || len(dead) == 0 {
		t.Fatal(err)
	}
	cause := "cause:" + dead[0].Cause
	for _, path := range []string{
		"jobs", filtered("state:dead"), filtered("state:ready"), filtered("state:running"), filtered("queue:mail state:completed"), filtered("type:email:*"),
		filtered("payload.order.id:4711"), filtered("meta.tenant:t7"), filtered("error:mailbox"), filtered("error:nothing"), filtered("id:" + dead[0].ID), filtered("state:dead " + cause),
		"part/jobs/suggest?filter=queue:m&at=7", "part/jobs/suggest?filter=type:e&at=6",
		"jobs/" + dead[0].ID, "dlq", "dlq?filter=queue%3Amail", "do/dlq/redrive?filter=" + cause, "redrives",
	} {
		times := make([]time.Duration, 40)
		for i := range times {
			began := time.Now()
			s.get(path)
			times[i] = time.Since(began)
		}
		slices.Sort(times)
		t.Logf("p50 %6v  p95 %6v  %s", times[20].Round(100*time.Microsecond), times[38].Round(100*time.Microsecond), path)
	}
}

// fill stores jobs: a tenth dead of eight causes, half completed, the others ready.
func (s *site) fill(n int) {
	s.t.Helper()
	queues := []string{"mail", "documents", "billing", "search"}
	const batch = 1000
	for at := 0; at < n; at += batch {
		requests := make([]job.Request, min(batch, n-at))
		for i := range requests {
			k := at + i
			requests[i] = job.Request{
				Type: []string{"email:send", "invoice:print"}[k%2], Queue: queues[k%len(queues)], Meta: map[string]string{"tenant": fmt.Sprintf("t%d", k%500)},
				Payload: fmt.Appendf(nil, `{"order":{"id":%d},"to":"person%d@example.com"}`, k, k),
			}
		}
		s.enqueue(requests...)
	}
	ctx, store := s.t.Context(), s.db.Jobs()
	claim := job.Claim{Worker: "fill", Types: []string{"email:send", "invoice:print"}, Lease: time.Minute}
	for _, q := range queues {
		claim.Queues = append(claim.Queues, job.Slots{Queue: q, Free: batch / len(queues)})
	}
	for settled := 0; settled < n*6/10; settled += batch {
		claimed, err := store.Claim(ctx, claim)
		if err != nil {
			s.t.Fatal(err)
		}
		list := make([]job.Settlement, len(claimed))
		for i, r := range claimed {
			list[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindComplete}
			if i%6 == 0 {
				list[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindDead, Reason: "permanent", Error: fmt.Sprintf("%s: mailbox %d is unavailable", strings.Repeat("x", i%8+1), i)}
			}
		}
		for _, err := range job.Settle(ctx, store, list) {
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
}
