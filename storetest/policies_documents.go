package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
)

// published is a time with more digits than stores keep.
var published = time.Date(2026, 3, 1, 12, 30, 0, 123456789, time.FixedZone("CET", 3600))

func revision(document string, number int64) policystore.Revision {
	return policystore.Revision{
		Document: document, Number: number, Hash: fmt.Sprintf("hash-%d", number), Body: []byte("version: 1\n# \x00 \xff\n"), Author: "alice",
		Message: "raise the limit", Created: published, Parent: number - 1, Restores: max(number-3, 0),
	}
}

func (s *policies) document(name string) policystore.Document {
	s.Helper()
	d, err := s.Save(s.ctx, policystore.Document{Name: name, Newest: 1, Current: 1, Updated: published}, revision(name, 1))
	s.ok(err)
	return d
}

func documentCases() []policiesCase {
	return []policiesCase{
		{"S1 a document is stored with its revision", func(s *policies) {
			saved := s.document("payments")
			want := policystore.Document{Name: "payments", Version: 1, Newest: 1, Current: 1, Updated: policystore.Stamp(published)}
			s.same(want, saved, "saved")
			got, err := s.second.Document(s.ctx, "payments")
			s.ok(err)
			s.same(want, got, "read")
			r, err := s.second.Revision(s.ctx, "payments", 1)
			s.ok(err)
			stored := revision("payments", 1)
			stored.Created = policystore.Stamp(stored.Created)
			s.same(stored, r, "revision")
		}},
		{"S1 what is missing is not found", func(s *policies) {
			s.document("payments")
			_, err := s.Document(s.ctx, "nope")
			_, err2 := s.Revision(s.ctx, "payments", 2)
			_, err3 := s.Revision(s.ctx, "nope", 1)
			for _, err := range []error{err, err2, err3} {
				s.must(err, policystore.ErrNotFound)
			}
		}},
		{"S1 a save of an old version is a conflict and changes nothing", func(s *policies) {
			first := s.document("payments")
			next := first
			next.Newest, next.Current = 2, 2
			next, err := s.Save(s.ctx, next, revision("payments", 2))
			s.ok(err)
			for _, stale := range []policystore.Document{first, {Name: "payments"}} {
				stale.Newest = 3
				if _, err := s.second.Save(s.ctx, stale, revision("payments", 3)); !errors.Is(err, policystore.ErrConflict) {
					s.Errorf("version %d: %v, want ErrConflict", stale.Version, err)
				}
			}
			s.must(errorOf(s.Save(s.ctx, policystore.Document{Name: "other", Version: 4})), policystore.ErrConflict)
			got, err := s.Document(s.ctx, "payments")
			s.ok(err)
			s.same(next, got, "document")
			s.must(errorOf(s.Revision(s.ctx, "payments", 3)), policystore.ErrNotFound)
		}},
		{"S1 a revision is immutable", func(s *policies) {
			d := s.document("payments")
			changed := revision("payments", 1)
			changed.Body = []byte("version: 2\n")
			d.Newest = 9
			s.must(errorOf(s.Save(s.ctx, d, changed)), policystore.ErrConflict)
			foreign := revision("other", 2)
			s.must(errorOf(s.Save(s.ctx, d, foreign)), policystore.ErrConflict)
			got, err := s.Document(s.ctx, "payments")
			s.ok(err)
			if got.Version != 1 || got.Newest != 1 {
				s.Errorf("the refused save changed the document: %+v", got)
			}
			r, err := s.Revision(s.ctx, "payments", 1)
			s.ok(err)
			s.same(revision("payments", 1).Body, r.Body, "body")
		}},
		{"S1 returned values are copies", func(s *policies) {
			s.document("payments")
			r, err := s.Revision(s.ctx, "payments", 1)
			s.ok(err)
			r.Body[0] = 'x'
			again, err := s.Revision(s.ctx, "payments", 1)
			s.ok(err)
			s.same(revision("payments", 1).Body, again.Body, "body")
		}},
		{"S1 of many savers of one version one wins", func(s *policies) {
			d := s.document("payments")
			var wins atomic.Int64
			atOnce(16, func(i int) {
				next := d
				next.Newest = 2
				_, err := s.handle(i).Save(s.ctx, next, revision("payments", 2))
				s.count(&wins, err, policystore.ErrConflict)
			})
			same(s, "savers that won", wins.Load(), 1)
		}},
		{"S1 revisions are listed from the newest, without bodies", func(s *policies) {
			d := s.document("payments")
			s.document("other")
			for n := int64(2); n <= 5; n++ {
				d.Newest = n
				var err error
				d, err = s.Save(s.ctx, d, revision("payments", n))
				s.ok(err)
			}
			var numbers []int64
			for _, r := range pages(s, func(last policystore.Revision) ([]policystore.Revision, error) {
				return s.second.Revisions(s.ctx, "payments", last.Number, 2)
			}) {
				want := revision("payments", r.Number)
				want.Body, want.Created = nil, policystore.Stamp(want.Created)
				s.same(want, r, "revision")
				numbers = append(numbers, r.Number)
			}
			s.same([]int64{5, 4, 3, 2, 1}, numbers, "numbers")
			far, err := s.Revisions(s.ctx, "payments", math.MaxInt64, 9)
			s.ok(err)
			s.same(5, len(far), "revisions below a high number")
		}},
		{"S1 documents are listed by name", func(s *policies) {
			for _, name := range []string{"b", "a", "ä", "B", "c"} {
				s.document(name)
			}
			list := pages(s, func(last policystore.Document) ([]policystore.Document, error) {
				return s.Documents(s.ctx, last.Name, 2)
			})
			s.same([]string{"B", "a", "b", "c", "ä"}, lists.Map(list, func(d policystore.Document) string { return d.Name }), "names")
		}},
		{"S2 a rollout and a freeze are part of the document", func(s *policies) {
			d := s.document("payments")
			now := policystore.Stamp(published)
			d.Freeze = &policystore.Freeze{Reason: "holidays", Actor: "bob", Since: now}
			d.Rollout = &policystore.Rollout{
				ID: "r1", Plan: rollout.Plan{Steps: []rollout.Step{{Share: 0.01, Hold: time.Minute, MinSamples: 7}, {Labels: map[string]string{"zone": "a"}}}},
				Candidate: 2, Base: 1, Seed: 1 << 63, Step: 1, State: policystore.Paused, Started: now, StepStarted: now, PausedAt: now, Actor: "bob",
				Judgement: &rollout.Judgement{Verdict: rollout.Advance},
			}
			saved, err := s.Save(s.ctx, d)
			s.ok(err)
			got, err := s.second.Document(s.ctx, "payments")
			s.ok(err)
			s.same(saved, got, "document")
		}},
		{"S4 savers wake watchers", func(s *policies) {
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			first, err := s.Watch(ctx)
			s.ok(err)
			second, err := s.second.Watch(ctx)
			s.ok(err)
			d := s.document("payments")
			s.await(first)
			s.await(second)
			drainSignals(first)
			drainSignals(second)
			d.Newest = 2
			_, err = s.second.Save(s.ctx, d, revision("payments", 2))
			s.ok(err)
			s.await(first)
			s.await(second)
			cancel()
			for range first { // until it is closed
			}
		}},
		{"S1 an ended context is an error", func(s *policies) {
			ctx, cancel := context.WithCancel(s.ctx)
			cancel()
			s.must(errorOf(s.Document(ctx, "payments")), context.Canceled)
			s.must(errorOf(s.Save(ctx, policystore.Document{Name: "payments"})), context.Canceled)
		}},
	}
}

// await waits for a signal.
func (s *policies) await(signals <-chan struct{}) {
	s.Helper()
	select {
	case <-signals:
	case <-time.After(30 * time.Second):
		s.Fatal("no signal")
	}
}

// drainSignals takes the signals that are under way: those of the first look and of the store's own bell.
func drainSignals(signals <-chan struct{}) {
	for {
		select {
		case <-signals:
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}
