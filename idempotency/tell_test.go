package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// journal records actions and refuses the configured ones.
type journal struct {
	refuse map[string]bool
	taken  []string
	ended  int // number of ended contexts
}

var errFull = errors.New("disk full")

func (j *journal) Append(ctx context.Context, e *observe.Event) error {
	if ctx.Err() != nil {
		j.ended++
	}
	if j.refuse[e.Idempotency.Action] {
		return errFull
	}
	j.taken = append(j.taken, e.Idempotency.Action)
	return nil
}

func TestA2AResultThatTheJournalRefusesIsNotReturned(t *testing.T) {
	j := &journal{refuse: map[string]bool{"hit": true}}
	virtual(t, idempotency.GuardOptions{Journal: j}, func(b *bench) {
		b.gets("r")(b.Do(b.Context(), requestOf("k"), b.effect("r")))
		_, err := b.Do(b.Context(), requestOf("k"), b.effect("no"))
		b.refused(idempotency.ErrJournal)(nil, err)
		b.refused(errFull)(nil, err)
		_, _ = b.Do(b.Context(), requestOf("failed"), b.fails(classify.Business(errDown)))
		_, err = b.Do(b.Context(), requestOf("failed"), b.effect("no"))
		b.refused(idempotency.ErrJournal)(nil, err)
		b.ran(2)
		j.refuse = nil
		b.gets("r")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		if diff := cmp.Diff([]string{"record", "failed", "hit"}, j.taken); diff != "" {
			b.Errorf("journal (-want +got):\n%s", diff)
		}
	})
}

func TestR13TheJournalDoesNotTurnAnEffectIntoAFailure(t *testing.T) {
	j := &journal{refuse: map[string]bool{"record": true}}
	virtual(t, idempotency.GuardOptions{Journal: j}, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		got, err := b.Do(ctx, requestOf("k"), func(ctx context.Context) ([]byte, error) {
			cancel()
			return b.effect("r")(ctx)
		})
		b.gets("r")(got, err)
		if j.ended > 0 {
			b.Error("the journal got a context that had ended")
		}
		last := b.events[len(b.events)-1]
		if last.Type != observe.Reported || last.Report.Reason != policy.ReasonAuditUnavailable {
			b.Errorf("the refusal was not reported: %+v", last)
		}
	})
}

func TestA2WithoutAnObserverARefusalIsSilent(t *testing.T) {
	b := newBench(t, idempotency.GuardOptions{})
	guard := b.guard(idempotency.GuardOptions{Journal: &journal{refuse: map[string]bool{"record": true}}})
	b.gets("r")(guard.Do(b.Context(), requestOf("k"), b.effect("r")))
	plain := b.guard(idempotency.GuardOptions{})
	b.gets("r")(plain.Do(b.Context(), requestOf("k"), b.effect("r")))
}

func TestI4AnOperatorResolvesAndClears(t *testing.T) {
	for _, c := range []struct {
		with    idempotency.Settlement
		then    error
		effects int64
		action  string
	}{
		{idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte("by hand")}, nil, 0, "record"},
		{idempotency.Settlement{State: idempotency.Failed, Failure: &idempotency.Failure{Type: "operator", Message: "refunded"}}, &idempotency.Failure{}, 0, "failed"},
		{idempotency.Settlement{State: idempotency.Released}, nil, 1, "released"},
	} {
		virtual(t, idempotency.GuardOptions{}, func(b *bench) {
			claim := b.claim()
			if err := b.Resolve(b.Context(), claim, c.with); !errors.Is(err, idempotency.ErrFenced) {
				b.Errorf("a live claim was resolved: %v", err)
			}
			time.Sleep(31 * time.Second)
			b.refused(idempotency.ErrUnknown)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
			if err := b.Resolve(b.Context(), claim, idempotency.Settlement{State: "done"}); err == nil {
				b.Error("resolved as done")
			}
			if err := b.Resolve(b.Context(), claim, c.with); err != nil {
				b.Fatal(err)
			}
			got, err := b.Do(b.Context(), requestOf("k"), b.effect("by hand"))
			if c.then != nil {
				var f *idempotency.Failure
				if !errors.As(err, &f) || f.Message != "refunded" {
					b.Errorf("%v", err)
				}
			} else {
				b.gets("by hand")(got, err)
			}
			b.ran(c.effects)
			if actions := b.actions(); actions[1] != c.action {
				b.Errorf("actions %v", actions)
			}
		})
	}
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		claim := b.claim()
		if err := b.Clear(b.Context(), claim); !errors.Is(err, idempotency.ErrFenced) {
			b.Errorf("a live claim was cleared: %v", err)
		}
		time.Sleep(31 * time.Second)
		if err := b.Clear(b.Context(), claim); err != nil {
			b.Fatal(err)
		}
		b.gets("r")(b.Do(b.Context(), requestOf("k"), b.effect("r")))
		if diff := cmp.Diff([]string{"cleared", "record"}, b.actions()); diff != "" {
			b.Errorf("actions (-want +got):\n%s", diff)
		}
	})
}

func TestI4AStoreWithoutAdminReturnsAnError(t *testing.T) {
	b := newBench(t, idempotency.GuardOptions{})
	guard, err := idempotency.NewGuard(struct{ idempotency.Store }{b.store}, idempotency.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if guard.Clear(t.Context(), idempotency.Claim{}) == nil || guard.Resolve(t.Context(), idempotency.Claim{}, idempotency.Settlement{}) == nil {
		t.Error("no error")
	}
}
