package documents_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/internal/documents"
)

const (
	first  = "version: 1\npolicies:\n  users.Get: {retry: {max_attempts: 3}}\n"
	second = "version: 1\npolicies:\n  users.Get: {retry: {max_attempts: 4}}\n"
)

func newService(t *testing.T) (*documents.Service, policystore.Store) {
	t.Helper()
	db := memory.Open()
	t.Cleanup(func() { _ = db.Close() })
	return documents.New(db.Policies(), nil), db.Policies()
}

func publish(t *testing.T, s *documents.Service, base int64, body string) documents.Published {
	t.Helper()
	p, err := s.Publish(t.Context(), documents.Change{Name: "shop", Base: base, Author: "ann"}, []byte(body), false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rollOut publishes the first revision and starts a rollout of the second.
func rollOut(t *testing.T, s *documents.Service) policystore.Document {
	t.Helper()
	publish(t, s, 0, first)
	p, err := s.Publish(t.Context(), documents.Change{Name: "shop", Base: 1, Author: "ann", Plan: &rollout.Plan{}}, []byte(second), false)
	if err != nil {
		t.Fatal(err)
	}
	return p.Document
}

func TestS1PublishingKeepsTheHistory(t *testing.T) {
	s, store := newService(t)
	publish(t, s, 0, first)
	p := publish(t, s, 1, second)
	if p.Document.Current != 2 || p.Document.Newest != 2 || p.Revision.Parent != 1 || p.Revision.Author != "ann" || len(p.Revision.Hash) != 64 {
		t.Errorf("%+v", p)
	}
	r, err := store.Revision(t.Context(), "shop", 1)
	if err != nil || string(r.Body) != first {
		t.Errorf("%s, %v", r.Body, err)
	}
}

func TestS1AMessageIsText(t *testing.T) {
	s, _ := newService(t)
	for _, message := range []string{"a\x00b", "a\xffb", strings.Repeat("x", 5000)} {
		if _, err := s.Publish(t.Context(), documents.Change{Name: "shop", Message: message}, []byte(first), false); err == nil || !strings.Contains(err.Error(), "message") {
			t.Errorf("%.10q: %v", message, err)
		}
	}
}

func TestS1AConflictChangesNothing(t *testing.T) {
	s, store := newService(t)
	publish(t, s, 0, first)
	publish(t, s, 1, second)
	before, _ := store.Document(t.Context(), "shop")
	for _, base := range []int64{0, 1, 3} {
		_, err := s.Publish(t.Context(), documents.Change{Name: "shop", Base: base}, []byte(first), false)
		var conflict *documents.ConflictError
		if !errors.As(err, &conflict) || conflict.Current != 2 || !errors.Is(err, policystore.ErrConflict) {
			t.Errorf("base %d: %v", base, err)
		}
	}
	if _, err := s.Publish(t.Context(), documents.Change{Name: "other", Base: 1}, []byte(first), false); !errors.Is(err, policystore.ErrConflict) {
		t.Errorf("a base of a document that does not exist: %v", err)
	}
	after, _ := store.Document(t.Context(), "shop")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Publish(t.Context(), documents.Change{Name: "shop", Base: documents.AnyBase}, []byte(first), false); err != nil {
		t.Errorf("any base: %v", err)
	}
}

func TestS1ABrokenDocumentIsRefusedWithAllFaults(t *testing.T) {
	s, _ := newService(t)
	_, err := s.Publish(t.Context(), documents.Change{Name: "shop"}, []byte("version: 1\npolicies:\n  a: {retry: {max_attempts: 0, jitter: no}}\nmore: 1\n"), true)
	var invalid *documents.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Faults) != 3 {
		t.Fatalf("%v", err)
	}
	for _, name := range []string{"", "../x", "a/b"} {
		if _, err := s.Publish(t.Context(), documents.Change{Name: name}, []byte(first), false); !errors.As(err, &invalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func TestS1AWarningHasToBeAccepted(t *testing.T) {
	s, _ := newService(t)
	body := []byte("version: 1\npolicies:\n  a: {retry: {max_attempts: 50}}\n")
	_, err := s.Publish(t.Context(), documents.Change{Name: "shop"}, body, false)
	var warnings *documents.WarningsError
	if !errors.As(err, &warnings) || len(warnings.Warnings) != 1 {
		t.Fatalf("%v", err)
	}
	p, err := s.Publish(t.Context(), documents.Change{Name: "shop"}, body, true)
	if err != nil || len(p.Warnings) != 1 || p.Document.Current != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestS1ADocumentThatProveShowsToBeBrokenIsRefusedWithAllFaults(t *testing.T) {
	s, _ := newService(t)
	body := []byte(`version: 1
policies:
  a: {retry: {max_attempts: 3, jitter: none, backoff: 1s, backoff_cap: 2s, overall_timeout: 500ms}}
  b: {circuit: {kind: slow, slow_after: 1s}, retry: {timeout: 500ms}, hedge: {enabled: true}}
`)
	_, err := s.Publish(t.Context(), documents.Change{Name: "shop"}, body, true)
	var invalid *documents.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Faults) != 3 || !strings.HasPrefix(invalid.Faults[0].Problem, "attempt-unreachable: ") {
		t.Fatalf("%v", err)
	}
	c, err := s.Check(t.Context(), "shop", body)
	if err != nil || c.Hash != "" || len(c.Faults)+len(c.Warnings) != 3 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestS1AWarningOfProveHasToBeAccepted(t *testing.T) {
	s, _ := newService(t)
	body := []byte("version: 1\npolicies:\n  a: {hedge: {enabled: true}}\n")
	_, err := s.Publish(t.Context(), documents.Change{Name: "shop"}, body, false)
	var warnings *documents.WarningsError
	if !errors.As(err, &warnings) || len(warnings.Warnings) != 1 || !strings.HasPrefix(warnings.Warnings[0].Problem, "hedge-always-launches: ") {
		t.Fatalf("%v", err)
	}
	if p, err := s.Publish(t.Context(), documents.Change{Name: "shop"}, body, true); err != nil || len(p.Warnings) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestS1ARollbackPublishesAnew(t *testing.T) {
	s, store := newService(t)
	publish(t, s, 0, first)
	publish(t, s, 1, second)
	p, err := s.Rollback(t.Context(), documents.Change{Name: "shop", Base: 2, Author: "bob"}, 1)
	if err != nil || p.Document.Current != 3 || p.Revision.Restores != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	r, err := store.Revision(t.Context(), "shop", 3)
	if err != nil || string(r.Body) != first {
		t.Errorf("%s, %v", r.Body, err)
	}
	if _, err := s.Rollback(t.Context(), documents.Change{Name: "shop", Base: 3}, 9); !errors.Is(err, policystore.ErrNotFound) {
		t.Errorf("a missing revision: %v", err)
	}
}

// TestS1ARollbackToABrokenRevisionIsRefused: an older program has published it, or one with other limits.
func TestS1ARollbackToABrokenRevisionIsRefused(t *testing.T) {
	s, store := newService(t)
	publish(t, s, 0, first)
	for i, body := range []string{"version: 2\n", "version: 1\npolicies:\n  a: {retry: {max_attempts: 3, jitter: none, backoff: 1s, overall_timeout: 500ms}}\n"} {
		number := int64(2*i + 2)
		d, err := store.Document(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		d.Newest, d.Current = number, number
		if _, err := store.Save(t.Context(), d, policystore.Revision{Document: "shop", Number: number, Hash: "h", Body: []byte(body), Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
		publish(t, s, number, first)
		p, err := s.Rollback(t.Context(), documents.Change{Name: "shop", Base: number + 1}, number)
		var invalid *documents.InvalidError
		if !errors.As(err, &invalid) || len(invalid.Faults) == 0 {
			t.Errorf("%s: %+v, %v", body, p.Document, err)
		}
		if d, err := store.Document(t.Context(), "shop"); err != nil || d.Current != number+1 {
			t.Errorf("%s: %+v, %v", body, d, err)
		}
	}
}

func TestS1AFrozenDocumentDoesNotChange(t *testing.T) {
	s, _ := newService(t)
	d := rollOut(t, s)
	if _, err := s.Freeze(t.Context(), "shop", policystore.Freeze{Actor: "ann", Reason: "sale"}); err != nil {
		t.Fatal(err)
	}
	var frozen *documents.FrozenError
	_, published := s.Publish(t.Context(), documents.Change{Name: "shop", Base: 1}, []byte(second), false)
	_, rolledBack := s.Rollback(t.Context(), documents.Change{Name: "shop", Base: 1}, 1)
	for _, err := range []error{published, rolledBack} {
		if !errors.As(err, &frozen) || frozen.Freeze.Reason != "sale" {
			t.Errorf("%v", err)
		}
	}
	d.Freeze, d.Version = &frozen.Freeze, d.Version+1
	if after, err := s.Judged(t.Context(), d, rollout.Judgement{Verdict: rollout.Advance}); err != nil || after.Rollout.Step != 0 {
		t.Errorf("advanced: %+v, %v", after, err)
	}
	if after, err := s.Judged(t.Context(), d, rollout.Judgement{Verdict: rollout.Revert}); err != nil || after.Current != 3 {
		t.Errorf("not reverted: %+v, %v", after, err)
	}
	if _, err := s.Unfreeze(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	publish(t, s, 3, second)
}

func TestS2OneRolloutAtATime(t *testing.T) {
	s, _ := newService(t)
	_, err := s.Publish(t.Context(), documents.Change{Name: "shop", Plan: &rollout.Plan{}}, []byte(first), false)
	if !errors.Is(err, documents.ErrFirst) {
		t.Errorf("first: %v", err)
	}
	d := rollOut(t, s)
	if d.Current != 1 || d.Rollout.Candidate != 2 || d.Rollout.Base != 1 || d.Rollout.State != policystore.Running || len(d.Rollout.Plan.Steps) != 4 {
		t.Errorf("%+v", d.Rollout)
	}
	if _, err := s.Publish(t.Context(), documents.Change{Name: "shop", Base: 1}, []byte(second), false); !errors.Is(err, documents.ErrRunning) {
		t.Errorf("%v", err)
	}
	bad := &rollout.Plan{Steps: []rollout.Step{{Share: 2}}}
	var invalid *documents.InvalidError
	if _, err := s.Publish(t.Context(), documents.Change{Name: "shop", Base: 1, Plan: bad}, []byte(second), false); !errors.As(err, &invalid) {
		t.Errorf("a bad plan: %v", err)
	}
}

func TestS2AJudgementCountsOnce(t *testing.T) {
	for _, test := range []struct {
		verdict rollout.Verdict
		state   policystore.RolloutState
		step    int
		current int64
	}{
		{rollout.Wait, policystore.Running, 0, 1},
		{rollout.Advance, policystore.Running, 1, 1},
		{rollout.Promote, policystore.Promoted, 0, 2},
		{rollout.Revert, policystore.Reverted, 0, 3},
	} {
		t.Run(string(test.verdict), func(t *testing.T) {
			s, store := newService(t)
			d := rollOut(t, s)
			j := rollout.Judgement{Verdict: test.verdict, Reason: rollout.ReasonFailures}
			after, err := s.Judged(t.Context(), d, j)
			if err != nil {
				t.Fatal(err)
			}
			if r := after.Rollout; r.State != test.state || r.Step != test.step || after.Current != test.current || r.State.Ended() == r.Ended.IsZero() {
				t.Errorf("%+v, current %d", r, after.Current)
			}
			if test.verdict == rollout.Wait {
				return
			}
			if _, err := s.Judged(t.Context(), d, j); !errors.Is(err, policystore.ErrConflict) {
				t.Errorf("again: %v", err)
			}
			if d.Rollout.Step != 0 || d.Rollout.State != policystore.Running {
				t.Error("the caller's copy changed")
			}
			if test.verdict == rollout.Revert {
				if r, err := store.Revision(t.Context(), "shop", 3); err != nil || string(r.Body) != first || r.Restores != 1 || r.Author != documents.Judge {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
	}
}

func TestS2PauseStopsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newService(t)
		d := rollOut(t, s)
		time.Sleep(time.Minute)
		if _, err := s.Pause(t.Context(), "shop", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Pause(t.Context(), "shop", 0); !errors.Is(err, documents.ErrNotRunning) {
			t.Errorf("paused twice: %v", err)
		}
		time.Sleep(time.Hour)
		after, err := s.Resume(t.Context(), "shop", 0)
		if err != nil || !after.Rollout.StepStarted.Equal(d.Rollout.StepStarted.Add(time.Hour)) || !after.Rollout.PausedAt.IsZero() {
			t.Errorf("%+v, %v", after.Rollout, err)
		}
		if _, err := s.Resume(t.Context(), "shop", 0); !errors.Is(err, documents.ErrNotRunning) {
			t.Errorf("resumed twice: %v", err)
		}
	})
}

func TestS2AbortRestoresTheBase(t *testing.T) {
	s, store := newService(t)
	rollOut(t, s)
	if _, err := s.Pause(t.Context(), "shop", 0); err != nil {
		t.Fatal(err)
	}
	d, err := s.Abort(t.Context(), "shop", "bob", 0)
	if err != nil || d.Current != 3 || d.Rollout.State != policystore.Aborted || !d.Rollout.PausedAt.IsZero() {
		t.Errorf("%+v, %v", d, err)
	}
	if r, err := store.Revision(t.Context(), "shop", 3); err != nil || string(r.Body) != first || r.Author != "bob" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Abort(t.Context(), "shop", "bob", 0); !errors.Is(err, documents.ErrNotRunning) {
		t.Errorf("aborted twice: %v", err)
	}
	publish(t, s, 3, second)
}

func TestS1RulesOfNamesWithDotsHaveTheirOwnLines(t *testing.T) {
	s, _ := newService(t)
	publish(t, s, 0, "version: 1\nqueues:\n  mail.b.concurrency: {concurrency: 3}\n  mail.b: {concurrency: 2}\n")
	rules, err := s.Rules(t.Context(), "shop", 1)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"mail.b.concurrency": 3, "mail.b": 4}
	for _, r := range rules {
		if line, given := want[r.Name]; r.Kind == "queue" && given && (r.Values[0].Line != line || strings.Contains(r.Values[0].Path, "\x00")) {
			t.Errorf("%s: %+v, want line %d", r.Name, r.Values[0], line)
		}
	}
}

func TestS1DiffByFieldAndAsText(t *testing.T) {
	s, _ := newService(t)
	publish(t, s, 0, first)
	publish(t, s, 1, second)
	d, err := s.Diff(t.Context(), "shop", 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Fields) != 1 || d.Fields[0].Path != "policies.users.Get.retry.max_attempts" || string(d.Fields[0].To) != "4" {
		t.Errorf("%+v", d.Fields)
	}
	want := "--- shop revision 1\n+++ shop revision 2\n@@ -1,3 +1,3 @@\n version: 1\n policies:\n-  users.Get: {retry: {max_attempts: 3}}\n+  users.Get: {retry: {max_attempts: 4}}\n"
	if diff := cmp.Diff(want, d.Text); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Diff(t.Context(), "shop", 1, 9); !errors.Is(err, policystore.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

type store = policystore.Documents

// racing is a store in which somebody else changes the document before the first saves.
type racing struct {
	store
	race func(context.Context)
}

func (s *racing) Save(ctx context.Context, d policystore.Document, add ...policystore.Revision) (policystore.Document, error) {
	if race := s.race; race != nil {
		s.race = nil
		race(ctx)
	}
	return s.store.Save(ctx, d, add...)
}

func TestS1ALostRaceIsCheckedAgain(t *testing.T) {
	s, inner := newService(t)
	publish(t, s, 0, first)
	other := &racing{store: inner, race: func(context.Context) { publish(t, s, 1, second) }}
	_, err := documents.New(other, nil).Publish(t.Context(), documents.Change{Name: "shop", Base: 1}, []byte(second), false)
	var conflict *documents.ConflictError
	if !errors.As(err, &conflict) || conflict.Current != 2 {
		t.Errorf("published over somebody else's revision: %v", err)
	}
	other.race = func(ctx context.Context) {
		_, _ = s.Freeze(ctx, "shop", policystore.Freeze{Actor: "ann", Reason: "sale"})
	}
	d, err := documents.New(other, nil).Freeze(t.Context(), "shop", policystore.Freeze{Actor: "bob", Reason: "audit"})
	if err != nil || d.Freeze.Actor != "bob" {
		t.Errorf("an operation without a base gave up: %+v, %v", d, err)
	}
}

// TestS1ConcurrentPublicationsFormOneChain lets many publishers, each with the revision that it saw, race through two services.
func TestS1ConcurrentPublicationsFormOneChain(t *testing.T) {
	one, store := newService(t)
	services := []*documents.Service{one, documents.New(store, nil)}
	publish(t, one, 0, first)
	var group sync.WaitGroup
	var won, lost atomic.Int64
	for i := range 40 {
		group.Go(func() {
			d, err := store.Document(t.Context(), "shop")
			if err != nil {
				t.Error(err)
				return
			}
			_, err = services[i%2].Publish(t.Context(), documents.Change{Name: "shop", Base: d.Current}, []byte(second), false)
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, policystore.ErrConflict):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	list, err := store.Revisions(t.Context(), "shop", 0, 100)
	if err != nil || int64(len(list)) != won.Load()+1 || won.Load()+lost.Load() != 40 {
		t.Fatalf("%d revisions, %d won, %d lost, %v", len(list), won.Load(), lost.Load(), err)
	}
	for _, r := range list {
		if r.Parent != r.Number-1 {
			t.Errorf("revision %d replaces %d", r.Number, r.Parent)
		}
	}
}
