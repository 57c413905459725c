package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// causeCases checks the groups of dead jobs. They are skipped where the store does not implement job.Causer. What is counted
// is compared with the dead jobs at the end of every case of the suite.
func causeCases() []jobsCase {
	return []jobsCase{
		{name: "J23/dead jobs are counted by cause", run: causesCount},
		{name: "J23/a group remembers its first death until its last job has left", run: causesForget},
		{name: "J23/a filter selects groups, or jobs for groups", run: causesFilter},
	}
}

// dies stores a job, which dies of an error.
func (s *jobs) dies(in job.Insert, text string) string {
	s.Helper()
	from := in.Queue
	if from == "" {
		from = queue
	}
	id := s.add(in)
	r := s.these(s.lease(from, 1, long), id)[0]
	s.must(s.settle(r.Ref(), job.KindDead, fails(text, 0)), nil)
	return id
}

func (s *jobs) causes(f job.Filter) job.Causes {
	s.Helper()
	out, err := optional[job.Causer](s, s.Store).Causes(s.ctx, job.CauseQuery{Filter: f})
	s.must(err, nil)
	return out
}

func causesCount(s *jobs) {
	texts := []string{"timeout after 1s", "timeout after 22s", "timeout after 3s", "timeout after 4s", "no such user"}
	ids := lists.Map(texts, func(text string) string { return s.dies(job.Insert{}, text) })
	other := s.dies(job.Insert{Queue: "other", Type: "u"}, "timeout after 5s")
	silent := s.attempt(job.Insert{MaxAttempts: 1}, job.KindBury, func(x *job.Settlement) { x.Reason = policy.ReasonAttemptsExhausted })
	lost := s.start(job.Insert{MaxAttempts: 1, Type: "lost"}, s.short)
	s.maintainAfter(s.short)
	timeout := job.CauseOf("timeout after 9s", "")
	want := []job.CauseGroup{
		{Cause: timeout, Fingerprint: "timeout after <n>s", Queue: queue, Type: "t", Reason: policy.ReasonError, Count: 4, Samples: []string{ids[3], ids[2], ids[1]}},
		{Cause: timeout, Fingerprint: "timeout after <n>s", Queue: "other", Type: "u", Reason: policy.ReasonError, Count: 1, Samples: []string{other}},
		{Cause: job.CauseOf("no such user", ""), Fingerprint: "no such user", Queue: queue, Type: "t", Reason: policy.ReasonError, Count: 1, Samples: ids[4:]},
		{Cause: job.CauseOf("", policy.ReasonAttemptsExhausted), Fingerprint: string(policy.ReasonAttemptsExhausted), Queue: queue, Type: "t", Reason: policy.ReasonAttemptsExhausted, Count: 1, Samples: []string{silent.ID}},
		{Cause: job.CauseOf("the lease expired before the attempt was settled", ""), Fingerprint: "the lease expired before the attempt was settled", Queue: queue, Type: "lost", Reason: policy.ReasonLeaseExpired, Count: 1, Samples: []string{lost.ID}},
	}
	want = job.SortCauses(want, 100)
	got := s.causes(job.Filter{})
	noDiff(s, "groups", cmp.Diff(want, got.Groups, cmpopts.IgnoreFields(job.CauseGroup{}, "FirstSeen", "LastSeen")))
	if got.Looked != 0 || got.More {
		s.Errorf("%+v", got)
	}
	if first, last := s.record(ids[0]).FinishedAt, s.record(ids[3]).FinishedAt; !got.Groups[0].FirstSeen.Equal(first) || !got.Groups[0].LastSeen.Equal(last) {
		s.Errorf("seen from %v to %v, want %v to %v", got.Groups[0].FirstSeen, got.Groups[0].LastSeen, first, last)
	}
	limited, err := s.Store.(job.Causer).Causes(s.ctx, job.CauseQuery{Limit: 1})
	s.must(err, nil)
	if len(limited.Groups) != 1 || limited.Groups[0].Count != 4 {
		s.Errorf("limited to one: %+v", limited.Groups)
	}
}

func causesForget(s *jobs) {
	oldest := s.record(s.dies(job.Insert{}, "x"))
	s.lapse(time.Millisecond)
	s.dies(job.Insert{}, "x")
	s.maintain()
	s.change(job.ActionDelete, job.Filter{IDs: []string{oldest.ID}}, 1)
	if g := s.causes(job.Filter{}).Groups; len(g) != 1 || !g[0].FirstSeen.Equal(oldest.FinishedAt) || g[0].Count != 1 {
		s.Errorf("%+v, want one from %v", g, oldest.FinishedAt)
	}
	s.change(job.ActionDelete, job.Filter{}, 10)
	s.maintain()
	same(s, "groups", len(s.causes(job.Filter{}).Groups), 0)
	s.maintain()
	if s.virtual {
		time.Sleep(time.Minute)
	}
	at := s.record(s.dies(job.Insert{}, "x")).FinishedAt
	if g := s.causes(job.Filter{}).Groups; len(g) != 1 || !g[0].FirstSeen.Equal(at) || g[0].Count != 1 {
		s.Errorf("%+v, want one from %v", g, at)
	}
}

func causesFilter(s *jobs) {
	a := s.dies(job.Insert{Type: "mail:a", Meta: map[string]string{"tenant": "acme"}}, "timeout 1")
	s.dies(job.Insert{Type: "mail:b"}, "timeout 2")
	s.dies(job.Insert{Queue: "other"}, "gone")
	cause := job.CauseOf("timeout 1", "")
	for text, want := range map[string]int{
		"": 3, "queue:q": 2, "type:mail:a": 1, `type:"mail:*"`: 2, "cause:" + cause: 2, "cause:" + cause + " type:mail:b": 1, "queue:none": 0, "cause:none": 0,
		"error:timeout": 2, "meta.tenant:acme": 1, "error:none": 0,
	} {
		got := s.causes(s.parse(text))
		n := 0
		for _, g := range got.Groups {
			n += g.Count
		}
		if n != want {
			s.Errorf("%s: %d jobs in %+v, want %d", text, n, got.Groups, want)
		}
		if counted := text != "" && text[:1] != "q" && text[:1] != "t" && text[:1] != "c"; (got.Looked > 0) != (counted && want > 0) {
			s.Errorf("%s: looked at %d", text, got.Looked)
		}
	}
	f := s.parse("state:dead cause:" + cause + " type:mail:a")
	s.these(s.list(f), a)
	if store, ok := s.Store.(job.RedriveStepper); ok {
		groups, err := store.PreviewRedrive(s.ctx, f)
		if s.must(err, nil); len(groups) != 1 || groups[0].Jobs != 1 {
			s.Errorf("%+v", groups)
		}
	}
}

// causeName names a group.
type causeName struct{ cause, queue, jobType string }

// checkCauses compares the counts of dead jobs by cause with those of the list.
func (s *jobs) checkCauses(want map[causeName]int) {
	s.Helper()
	store, ok := s.Store.(job.Causer)
	if !ok {
		return
	}
	out, err := store.Causes(s.ctx, job.CauseQuery{Limit: 1 << 20})
	if err != nil {
		s.Errorf("Causes: %v", err)
		return
	}
	got := map[causeName]int{}
	for _, g := range out.Groups {
		got[causeName{g.Cause, g.Queue, g.Type}] = g.Count
		if len(g.Samples) == 0 || g.FirstSeen.IsZero() || g.LastSeen.Before(g.FirstSeen) || g.Cause == "" {
			s.Errorf("J23: group %+v", g)
		}
	}
	noDiff(s, "J23: dead jobs by cause, as listed and as counted", cmp.Diff(want, got, cmp.AllowUnexported(causeName{})))
}
