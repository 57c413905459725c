package rollouts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/internal/documents"
	"github.com/tenetdev/tenet/server/internal/rollouts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	first  = "version: 1\npolicies:\n  users.Get: {retry: {max_attempts: 3}}\n"
	second = "version: 1\npolicies:\n  users.Get: {retry: {max_attempts: 4}}\n"
)

// crashing is a store behind which a server dies: after left saves, or just before the one after them, nothing answers.
type crashing struct {
	policystore.Store
	left  atomic.Int64
	after bool // it dies once the save has taken effect
	saves atomic.Int64
}

var errCrashed = errors.New("crashed")

func (s *crashing) Save(ctx context.Context, d policystore.Document, add ...policystore.Revision) (policystore.Document, error) {
	left := s.left.Add(-1)
	if left < 0 && (!s.after || left < -1) {
		return d, errCrashed
	}
	saved, err := s.Store.Save(ctx, d, add...)
	if left < 0 {
		err = errCrashed
	}
	if err == nil {
		s.saves.Add(1)
	}
	return saved, err
}

func (s *crashing) Lead(ctx context.Context, task, server string, ttl time.Duration) (bool, error) {
	if s.left.Load() < 0 {
		return false, errCrashed
	}
	return s.Store.Lead(ctx, task, server, ttl)
}

func crashAfter(store policystore.Store, saves int64, after bool) *crashing {
	s := &crashing{Store: store, after: after}
	s.left.Store(saves)
	return s
}

// everybodyLeads is a store that lets every server lead.
type everybodyLeads struct{ policystore.Store }

func (everybodyLeads) Lead(context.Context, string, string, time.Duration) (bool, error) {
	return true, nil
}

// start begins a rollout over two steps of a minute each.
func start(t *testing.T, store policystore.Store) policystore.Document {
	t.Helper()
	docs := documents.New(store, nil)
	if _, err := docs.Publish(t.Context(), documents.Change{Name: "shop"}, []byte(first), false); err != nil {
		t.Fatal(err)
	}
	plan := &rollout.Plan{Steps: []rollout.Step{{Share: 0.5, Hold: time.Minute}, {Share: 1, Hold: time.Minute}}}
	p, err := docs.Publish(t.Context(), documents.Change{Name: "shop", Base: 1, Plan: plan}, []byte(second), false)
	if err != nil {
		t.Fatal(err)
	}
	return p.Document
}

// report adds two clients per group, and evidence.
func report(t *testing.T, store policystore.Store, failures float64) {
	t.Helper()
	if document(t, store).Rollout.State == policystore.Running {
		seen(t, store, 2)
		evidence(t, store, failures)
	}
}

// evidence adds evidence of 40 clients per group in the current step.
func evidence(t *testing.T, store policystore.Store, failures float64) {
	t.Helper()
	d := document(t, store)
	random := rand.New(rand.NewPCG(1, uint64(d.Rollout.Step)))
	for revision, share := range map[int64]float64{d.Rollout.Base: 0.01, d.Rollout.Candidate: failures} {
		var group rollout.Counters
		for range 40 {
			var c rollout.Counters
			for range 1000 {
				c.Observe(time.Duration(5+random.IntN(10))*time.Millisecond, 0, random.Float64() < share)
			}
			group.AddClient(c)
		}
		if err := store.AddEvidence(t.Context(), []policystore.Evidence{{Rollout: d.Rollout.ID, Step: d.Rollout.Step, Revision: revision, Counters: group}}); err != nil {
			t.Fatal(err)
		}
	}
}

// seen stores n clients per group.
func seen(t *testing.T, store policystore.Store, n int) {
	t.Helper()
	d := document(t, store)
	var list []policystore.Client
	for _, revision := range []int64{d.Rollout.Base, d.Rollout.Candidate} {
		for i := range n {
			list = append(list, policystore.Client{Document: d.Name, ID: fmt.Sprintf("client-%d-%d", revision, i), Applied: revision, LastSeen: time.Now()})
		}
	}
	if err := store.SaveClients(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

func document(t *testing.T, store policystore.Store) policystore.Document {
	t.Helper()
	d, err := store.Document(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// serve runs servers on stores until the test's work is done. They start five seconds apart, so that the first one leads.
func serve(t *testing.T, work func(), stores ...policystore.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i, store := range stores {
		group.Go(func() {
			time.Sleep(time.Duration(i) * 5 * time.Second)
			rollouts.New(store, documents.New(store, nil), rollouts.Options{}).Run(ctx)
		})
	}
	work()
	cancel()
	group.Wait()
}

func TestS2AGoodRevisionIsPromotedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Policies()
		start(t, store)
		one, two := crashAfter(everybodyLeads{store}, 1000, false), crashAfter(everybodyLeads{store}, 1000, false)
		serve(t, func() {
			time.Sleep(time.Minute)
			if d := document(t, store); d.Rollout.Step != 0 {
				t.Errorf("advanced without evidence: %+v", d.Rollout)
			}
			for range 4 {
				report(t, store, 0.01)
				time.Sleep(time.Minute)
			}
		}, one, two)
		d := document(t, store)
		if d.Rollout.State != policystore.Promoted || d.Current != 2 || d.Newest != 2 || d.Rollout.Judgement == nil {
			t.Errorf("%+v", d)
		}
		if one.saves.Load()+two.saves.Load() != 2 { // one step and the promotion
			t.Errorf("%d and %d saves", one.saves.Load(), two.saves.Load())
		}
	})
}

func TestS2ABadRevisionIsRevertedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Policies()
		start(t, store)
		serve(t, func() {
			time.Sleep(10 * time.Second)
			report(t, store, 0.1)
			time.Sleep(2 * rollouts.Interval)
		}, store)
		d := document(t, store)
		if d.Rollout.State != policystore.Reverted || d.Current != 3 || d.Rollout.Judgement.Reason != rollout.ReasonFailures || len(d.Rollout.Judgement.Measures) == 0 {
			t.Errorf("%+v", d)
		}
		if r, err := store.Revision(t.Context(), "shop", 3); err != nil || string(r.Body) != first {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestS2AnotherServerTakesOver kills the leading server at each of its saves, before and after the save takes effect.
func TestS2AnotherServerTakesOver(t *testing.T) {
	for _, failures := range []float64{0.01, 0.1} {
		for saves := range int64(2) {
			for _, after := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					store := memory.Open().Policies()
					start(t, store)
					dying := crashAfter(store, saves, after)
					serve(t, func() {
						for range 6 {
							report(t, store, failures)
							time.Sleep(time.Minute)
						}
					}, dying, store)
					if once := failures > 0.01 && saves == 1; !once && dying.left.Load() >= 0 {
						t.Error("the server did not crash")
					}
					d := document(t, store)
					want := policystore.Document{Newest: 2, Current: 2, Rollout: &policystore.Rollout{State: policystore.Promoted}}
					if failures > 0.01 {
						want = policystore.Document{Newest: 3, Current: 3, Rollout: &policystore.Rollout{State: policystore.Reverted}}
					}
					if d.Newest != want.Newest || d.Current != want.Current || d.Rollout.State != want.Rollout.State {
						t.Errorf("failures %g, %d saves, after %v: %+v %+v", failures, saves, after, d, d.Rollout)
					}
				})
			}
		}
	}
}

func TestS2APausedOrFrozenRolloutStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Policies()
		start(t, store)
		docs := documents.New(store, nil)
		serve(t, func() {
			if _, err := docs.Pause(t.Context(), "shop", 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if _, err := docs.Resume(t.Context(), "shop", 0); err != nil {
				t.Fatal(err)
			}
			if _, err := docs.Freeze(t.Context(), "shop", policystore.Freeze{Actor: "ann", Reason: "sale"}); err != nil {
				t.Fatal(err)
			}
			report(t, store, 0.01)
			time.Sleep(time.Hour)
			if d := document(t, store); d.Rollout.Step != 0 || d.Rollout.State != policystore.Running {
				t.Errorf("%+v", d.Rollout)
			}
		}, store)
	})
}

func TestS2NothingTakesEffectBeforeItIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Policies()
		start(t, store)
		report(t, store, 0.1)
		var refuse atomic.Bool
		refuse.Store(true)
		var recorded []rollout.Judgement
		runner := rollouts.New(store, documents.New(store, nil), rollouts.Options{
			Record: func(_ context.Context, _ policystore.Document, j rollout.Judgement, take func() error) error {
				if refuse.Load() {
					return errors.New("the audit log is full")
				}
				recorded = append(recorded, j)
				return take()
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); runner.Run(ctx) }()
		time.Sleep(time.Minute)
		if d := document(t, store); d.Rollout.State != policystore.Running {
			t.Errorf("%+v", d.Rollout)
		}
		refuse.Store(false)
		time.Sleep(time.Minute)
		if d := document(t, store); d.Rollout.State != policystore.Reverted || len(recorded) != 1 || recorded[0].Verdict != rollout.Revert {
			t.Errorf("%+v, recorded %+v", d.Rollout, recorded)
		}
		cancel()
		<-done
	})
}

func TestS3ClientsThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Policies()
		now := time.Now()
		err := store.SaveClients(t.Context(), []policystore.Client{{Document: "shop", ID: "old", LastSeen: now.AddDate(0, 0, -8)}, {Document: "shop", ID: "new", LastSeen: now}})
		if err != nil {
			t.Fatal(err)
		}
		serve(t, func() { time.Sleep(time.Minute) }, store)
		if list, err := store.Clients(t.Context(), "shop", policystore.ClientKey{}, 10); err != nil || len(list) != 1 || list[0].ID != "new" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestS2OneClientDoesNotOpenAGate: its reports reached several servers, and it counts as many members.
func TestS2OneClientDoesNotOpenAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Policies()
		start(t, store)
		serve(t, func() {
			time.Sleep(10 * time.Second)
			seen(t, store, 1)
			for range 5 {
				evidence(t, store, 0.01)
				time.Sleep(time.Minute)
			}
			if d := document(t, store); d.Rollout.State != policystore.Running || d.Rollout.Step != 0 {
				t.Errorf("one client was enough: %+v", d.Rollout)
			}
		}, store)
	})
}
