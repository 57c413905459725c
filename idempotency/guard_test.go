package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

func TestI3AResultIsReplayedByteForByteWithoutTheEffect(t *testing.T) {
	for _, result := range [][]byte{nil, {}, []byte("null"), []byte("0"), []byte(`""`), []byte("false"), {0, 0xff}, []byte("receipt")} {
		virtual(t, idempotency.GuardOptions{}, func(b *bench) {
			op := func(context.Context) ([]byte, error) {
				b.effects.Add(1)
				return result, nil
			}
			for range 3 {
				got, err := b.Do(b.Context(), requestOf("k"), op)
				if err != nil || string(got) != string(result) || (got == nil) != (result == nil) {
					b.Fatalf("got %#v, %v; want %#v", got, err, result)
				}
			}
			b.ran(1)
			if diff := cmp.Diff([]string{"record", "hit", "hit"}, b.actions()); diff != "" {
				b.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestI6AResultHandedOutIsACopy(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		for range 3 {
			got, err := b.Do(b.Context(), requestOf("k"), b.effect("receipt"))
			b.gets("receipt")(got, err)
			copy(got, "spoilt!")
			ticket, err := b.Begin(b.Context(), requestOf("k"))
			if err != nil {
				b.Fatal(err)
			}
			for range 2 {
				result, present := ticket.Result()
				if !present || string(result) != "receipt" || string(ticket.Record().Result) != "receipt" {
					b.Fatalf("the ticket holds %q", result)
				}
				copy(result, "spoilt!")
				copy(ticket.Record().Result, "spoilt!")
			}
		}
	})
}

func TestI8AHundredConcurrentCallersHaveOneEffect(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Wait: time.Minute}, func(b *bench) {
		other := b.guard(idempotency.GuardOptions{Wait: time.Minute})
		var group sync.WaitGroup
		for i := range 100 {
			guard := []*idempotency.Guard{b.Guard, other}[i%2]
			group.Go(func() {
				got, err := guard.Do(b.Context(), requestOf("k"), func(ctx context.Context) ([]byte, error) { return b.lasting(time.Second)(ctx) })
				if err != nil || string(got) != "late" {
					b.Errorf("%q, %v", got, err)
				}
			})
		}
		group.Wait()
		b.ran(1)
	})
}

func TestI3InFlightGivesTheRemainingTime(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		go b.Do(b.Context(), requestOf("k"), b.lasting(time.Minute))
		time.Sleep(4 * time.Second)
		_, err := b.Do(b.Context(), requestOf("k"), b.effect("no"))
		var busy *idempotency.InFlightError
		if !errors.Is(err, idempotency.ErrInFlight) || !errors.As(err, &busy) || busy.RetryAfter != 26*time.Second || busy.ID.Key != "k" {
			b.Fatalf("%v", err)
		}
		if mark, after := classify.MarkOf(err); mark != classify.MarkAfter || after != 26*time.Second {
			b.Errorf("marked %v with %s", mark, after)
		}
		b.ran(1)
		time.Sleep(time.Minute)
		b.gets("late")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		if diff := cmp.Diff([]string{"conflict", "record", "hit"}, b.actions()); diff != "" {
			b.Errorf("actions (-want +got):\n%s", diff)
		}
	})
}

func TestI3WaitingIsBounded(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Wait: 5 * time.Second}, func(b *bench) {
		go b.Do(b.Context(), requestOf("k"), b.lasting(time.Minute))
		synctest.Wait()
		begin := time.Now()
		b.refused(idempotency.ErrInFlight)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		if waited := time.Since(begin); waited != 5*time.Second {
			b.Errorf("waited %s", waited)
		}
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		_, err := b.Do(ctx, requestOf("k"), b.effect("no"))
		if !errors.Is(err, idempotency.ErrInFlight) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			b.Errorf("after %s: %v", time.Since(begin), err)
		}
		b.ran(1)
		time.Sleep(time.Minute)
	})
}

func TestI3AWaitingDuplicateGetsTheResultSoon(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Wait: time.Minute}, func(b *bench) {
		go b.Do(b.Context(), requestOf("k"), b.lasting(3*time.Second))
		synctest.Wait()
		begin := time.Now()
		b.gets("late")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		if waited := time.Since(begin); waited > 3250*time.Millisecond {
			b.Errorf("waited %s for an effect of 3s", waited)
		}
		b.ran(1)
	})
}

func TestI6AStoreErrorWhileWaitingForADuplicateFailsClosed(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Wait: time.Minute}, func(b *bench) {
		go b.Do(b.Context(), requestOf("k"), b.lasting(3*time.Second))
		synctest.Wait()
		b.store.begin = func() error {
			if time.Now().Nanosecond() != 0 { // not the first read
				return errDown
			}
			return nil
		}
		b.refused(idempotency.ErrUnavailable)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		b.ran(1)
		time.Sleep(time.Minute)
	})
}

func TestI3AnotherFingerprintIsAMismatch(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 10 * time.Second}, func(b *bench) {
		mismatch := func(key string) {
			b.Helper()
			before := b.record(key)
			_, err := b.Do(b.Context(), idempotency.Request{Key: key, Fingerprint: "g"}, b.effect("no"))
			b.refused(idempotency.ErrMismatch)(nil, err)
			if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent {
				b.Errorf("marked %v", mark)
			}
			if diff := cmp.Diff(before, b.record(key)); diff != "" {
				b.Errorf("the record changed:\n%s", diff)
			}
		}
		b.gets("r")(b.Do(b.Context(), requestOf("completed"), b.effect("r")))
		_, _ = b.Do(b.Context(), requestOf("failed"), b.fails(classify.Permanent(errDown)))
		_, _ = b.Do(b.Context(), requestOf("released"), b.fails(errDown))
		go b.Do(b.Context(), requestOf("in flight"), b.lasting(time.Second))
		synctest.Wait()
		for _, key := range []string{"completed", "failed", "released", "in flight"} {
			mismatch(key)
		}
		b.ran(4)
		time.Sleep(time.Minute)
	})
}

func TestI3AFinalFailureIsKept(t *testing.T) {
	declined := errors.New("card declined")
	for name, c := range map[string]struct {
		err   error
		kept  bool
		class classify.Classifier
	}{
		"permanent":                    {classify.Permanent(declined), true, nil},
		"unrecoverable":                {fmt.Errorf("wrapped: %w", classify.Unrecoverable(declined)), true, nil},
		"business":                     {classify.Business(declined), true, nil},
		"unmarked":                     {declined, false, nil},
		"after":                        {classify.After(declined, time.Second), false, nil},
		"classified":                   {declined, true, final(declined)},
		"classified, not it":           {errDown, false, final(declined)},
		"marked in spite of its class": {classify.After(declined, time.Second), false, final(declined)},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, idempotency.GuardOptions{Classify: c.class}, func(b *bench) {
				if got, err := b.Do(b.Context(), requestOf("k"), b.fails(c.err)); got != nil || err != c.err {
					b.Fatalf("%q, %v; want the effect's own error", got, err)
				}
				if !c.kept {
					b.gets("r")(b.Do(b.Context(), requestOf("k"), b.effect("r")))
					if r := b.record("k"); r.Attempts != 2 || r.State != idempotency.Completed {
						b.Fatalf("%+v", r)
					}
					b.ran(2)
					return
				}
				for range 2 {
					_, err := b.Do(b.Context(), requestOf("k"), b.effect("no"))
					var failure *idempotency.FailureError
					if !errors.As(err, &failure) || failure.Failure.Message != c.err.Error() || failure.ID.Key != "k" {
						b.Fatalf("%v", err)
					}
					if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent {
						b.Errorf("marked %v", mark)
					}
				}
				b.ran(1)
				if r := b.record("k"); r.State != idempotency.Failed || r.Failure.Type == "*classify.marked" {
					b.Errorf("%s as %q", r.State, r.Failure.Type)
				}
			})
		})
	}
}

// final is a classifier with one final error.
func final(err error) classify.Classifier {
	return classify.Func(func(_ any, got error) classify.Outcome {
		if errors.Is(got, err) {
			return classify.Outcome{Kind: classify.NonRetryable}
		}
		return classify.Default(nil, got)
	})
}

func TestI3FailuresAreStoredSanitised(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		_, _ = b.Do(b.Context(), requestOf("k"), b.fails(classify.Business(errors.New("a\x00b\xffc"+strings.Repeat("日", 10_000)))))
		f := b.record("k").Failure
		if !strings.HasPrefix(f.Message, "a\uFFFDb\uFFFDc日日") || len(f.Message) > 16<<10 || !strings.HasSuffix(f.Message, "日…") {
			b.Errorf("%d bytes, %q", len(f.Message), f.Message[:20])
		}
		if f.Type != "*errors.errorString" {
			b.Errorf("type %q", f.Type)
		}
	})
}

func TestI3ExpiryLetsTheKeyRunAgain(t *testing.T) {
	virtual(t, idempotency.GuardOptions{TTL: time.Hour}, func(b *bench) {
		b.gets("1")(b.Do(b.Context(), requestOf("k"), b.effect("1")))
		time.Sleep(time.Hour - time.Microsecond)
		b.gets("1")(b.Do(b.Context(), requestOf("k"), b.effect("2")))
		time.Sleep(time.Microsecond)
		b.gets("2")(b.Do(b.Context(), idempotency.Request{Key: "k", Fingerprint: "another"}, b.effect("2")))
		b.ran(2)
	})
}

func TestI6AnOutageMeansNoEffect(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		down := func() error { return errDown }
		b.store.begin, b.store.get = down, down
		_, err := b.Do(b.Context(), requestOf("k"), b.effect("no"))
		var failed *idempotency.StoreError
		if !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, errDown) || !errors.As(err, &failed) || failed.ID.Key != "k" {
			b.Fatalf("%v", err)
		}
		if mark, _ := classify.MarkOf(err); mark != classify.Unmarked {
			b.Errorf("marked %v, although it may be retried", mark)
		}
		b.ran(0)
		b.store.begin, b.store.get = nil, nil
		b.gets("yes")(b.Do(b.Context(), requestOf("k"), b.effect("yes")))
	})
}

func TestI6AnEndedContextMeansNoEffectAndNoRecord(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(b.Context())
		cancel(gone)
		_, err := b.Do(ctx, requestOf("k"), b.effect("no"))
		if refusal, ok := errors.AsType[*idempotency.RefusedError](err); !ok || !refusal.Ended() || !errors.Is(err, gone) {
			b.Errorf("%v", err)
		}
		if b.ran(0); b.store.count("begin") != 0 {
			b.Error("the store was called")
		}
	})
}

// TestI6AClaimWithALostAnswerIsReleased: a begin that succeeded although its answer was lost must not block the key.
func TestI6AClaimWithALostAnswerIsReleased(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		b.store.after = func() error { return errDown }
		b.refused(idempotency.ErrUnavailable)(b.Do(b.Context(), requestOf("lost"), b.effect("no")))
		b.store.after = nil
		b.gets("yes")(b.Do(b.Context(), requestOf("lost"), b.effect("yes")))
		b.ran(1)

		b.gets("r")(b.Do(b.Context(), requestOf("other"), b.effect("r")))
		b.store.after = func() error { return errDown }
		b.refused(idempotency.ErrUnavailable)(b.Do(b.Context(), requestOf("other"), b.effect("no")))
		if r := b.record("other"); r.State != idempotency.Completed {
			b.Errorf("the other owner's record is %s", r.State)
		}
		claim := b.claim()
		b.refused(idempotency.ErrUnavailable)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		if r := b.record("k"); r.State != idempotency.InFlight || r.Claim() != claim {
			b.Errorf("the other owner's claim was released: %+v", r)
		}
	})
}

// TestI6AClaimThatIsStillBeingWrittenIsReleased: a server may be writing the claim of a begin that the caller has given up.
func TestI6AClaimThatIsStillBeingWrittenIsReleased(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		b.store.late = true
		b.refused(idempotency.ErrUnavailable)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		b.gets("yes")(b.Do(b.Context(), requestOf("k"), b.effect("yes")))
		b.ran(1)
	})
}

// TestI6AReleaseWithoutAnAnswerLeavesNoClaim: the begin never reached the store, and the one that is to release its claim gets no answer.
func TestI6AReleaseWithoutAnAnswerLeavesNoClaim(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		b.store.begin = func() error {
			if b.store.calls["begin"] == 1 {
				return errDown
			}
			return nil
		}
		b.store.after = func() error { return errDown }
		b.refused(idempotency.ErrUnavailable)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		b.store.begin, b.store.after = nil, nil
		time.Sleep(time.Minute)
		b.gets("yes")(b.Do(b.Context(), requestOf("k"), b.effect("yes")))
	})
}

func TestI7ABadKeyStoresNothing(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		long := strings.Repeat("x", 256)
		for _, c := range []struct {
			field string
			id    idempotency.ID
		}{
			{"key", idempotency.ID{}}, {"key", idempotency.ID{Key: long}}, {"key", idempotency.ID{Key: "a\nb"}}, {"key", idempotency.ID{Key: "a\u0085b"}},
			{"key", idempotency.ID{Key: "a\xffb"}}, {"key", idempotency.ID{Key: "\x7f"}}, {"key", idempotency.ID{Key: "\x00"}},
			{"tenant", idempotency.ID{Key: "k", Tenant: long}}, {"operation", idempotency.ID{Key: "k", Operation: "\t"}},
		} {
			_, err := b.Do(b.Context(), idempotency.Request{Key: c.id.Key, Tenant: c.id.Tenant, Operation: c.id.Operation, Fingerprint: "f"}, b.effect("no"))
			var bad *idempotency.KeyError
			if !errors.As(err, &bad) || bad.Field != c.field || !strings.Contains(err.Error(), bad.Field+": ") {
				b.Errorf("%q: %v", c.id, err)
			}
			if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent {
				b.Errorf("marked %v", mark)
			}
		}
		var bad *idempotency.KeyError
		if _, err := b.Do(b.Context(), idempotency.Request{Key: "k", Fingerprint: "\xff"}, b.effect("no")); !errors.As(err, &bad) || bad.Field != "fingerprint" {
			b.Errorf("a fingerprint of bytes: %v", err)
		}
		if b.ran(0); b.store.count("begin") != 0 {
			b.Error("the store was called")
		}
		b.gets("r")(b.Do(b.Context(), requestOf(strings.Repeat("é", 127)+"x"), b.effect("r"))) // 255 bytes
	})
}

func TestI2ScopesAreSeparateAndDefaultToTheGuards(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Tenant: "acme", Operation: "charge"}, func(b *bench) {
		b.gets("1")(b.Do(b.Context(), requestOf("k"), b.effect("1")))
		for _, id := range []idempotency.ID{{Key: "k"}, {Tenant: "acme", Operation: "charge", Key: "k"}} {
			b.gets("1")(b.Do(b.Context(), idempotency.Request{Key: id.Key, Tenant: id.Tenant, Operation: id.Operation, Fingerprint: "f"}, b.effect("2")))
		}
		b.gets("3")(b.Do(b.Context(), idempotency.Request{Tenant: "other", Key: "k", Fingerprint: "f"}, b.effect("3")))
		b.gets("4")(b.Do(b.Context(), idempotency.Request{Operation: "refund", Key: "k", Fingerprint: "f"}, b.effect("4")))
		b.ran(3)
	})
}

func TestA1EventsNameTheirWork(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Tenant: "acme", Operation: "billing.charge"}, func(b *bench) {
		b.gets("r")(b.Do(b.Context(), requestOf("k"), b.effect("r")))
		work := observe.Work{
			ID: "job-7", Key: policy.ParseKey("job/mail.send"), Surface: policy.SurfaceJob, Operation: "send", TenantID: "t", CorrelationID: "c", IdempotencyKey: "i",
		}
		b.gets("r")(b.Do(b.Context(), idempotency.Request{Key: "k", Fingerprint: "f", Work: work}, b.effect("no")))
		want := []*observe.Event{
			{
				Type: observe.Idempotent, Time: time.Now(),
				Work: observe.Work{
					Key: policy.ParseKey("billing.charge"), Surface: policy.SurfaceCall, Operation: "billing.charge", TenantID: "acme", IdempotencyKey: "k",
				},
				Idempotency: &observe.IdempotencyAction{Tenant: "acme", Operation: "billing.charge", Key: "k", Action: "record", Fence: time.Now().UnixMicro(), Attempts: 1},
			},
			{
				Type: observe.Idempotent, Time: time.Now(), Work: work,
				Idempotency: &observe.IdempotencyAction{Tenant: "acme", Operation: "billing.charge", Key: "k", Action: "hit", Fence: time.Now().UnixMicro(), Attempts: 1},
			},
		}
		if diff := cmp.Diff(want, b.events, cmp.AllowUnexported(observe.Event{}, observe.Attributes{})); diff != "" {
			b.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestI2ThePolicyIsRecorded(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		b.gets("r")(b.Do(b.Context(), idempotency.Request{Key: "k", PolicyHash: "revision"}, b.effect("r")))
		if got := b.record("k").PolicyHash; got != "revision" {
			b.Errorf("policy %q", got)
		}
	})
}

func TestGuardOptionsOutOfRange(t *testing.T) {
	store := newBench(t, idempotency.GuardOptions{}).store
	for want, o := range map[string]idempotency.GuardOptions{
		"ttl": {TTL: -1}, "lease": {Lease: time.Millisecond}, "wait": {Wait: -1}, "limit of results": {MaxResult: -1}, "tenant": {Tenant: "\n"},
		"operation": {Operation: "\x00"},
	} {
		if _, err := idempotency.NewGuard(store, o); err == nil || !strings.HasPrefix(err.Error(), "idempotency: "+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := idempotency.NewGuard(nil, idempotency.GuardOptions{}); err == nil {
		t.Error("a guard without a store")
	}
}

func TestI6GuardsSweepExpiredRecords(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		for i := range 1000 {
			b.gets("r")(b.Do(b.Context(), requestOf(fmt.Sprint(i)), b.effect("r")))
			b.gets("r")(b.Do(b.Context(), requestOf(fmt.Sprint(i)), b.effect("no")))
		}
		if n := b.store.count("expire"); n != 1000/256 {
			b.Errorf("swept %d times", n)
		}
	})
}
