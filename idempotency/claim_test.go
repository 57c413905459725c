package idempotency_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
)

// TestI4TheFiveCrashPoints simulates a crash by a ticket that is never settled and whose renewals stop.
func TestI4TheFiveCrashPoints(t *testing.T) {
	const lease = 30 * time.Second
	for _, c := range []struct {
		name       string
		replaySafe bool
		dies       func(b *bench)
		left       int64
		live, then error
		effects    int64
	}{
		{"before the claim", false, func(*bench) {}, 0, nil, nil, 1},
		{"before the claim, replay-safe", true, func(*bench) {}, 0, nil, nil, 1},
		{"after the claim", false, func(b *bench) { b.claim() }, 0, idempotency.ErrInFlight, idempotency.ErrUnknown, 0},
		{"after the claim, replay-safe", true, func(b *bench) { b.claim() }, 0, idempotency.ErrInFlight, nil, 1},
		{"after the effect", false, func(b *bench) { b.claim(); b.effects.Add(1) }, 1, idempotency.ErrInFlight, idempotency.ErrUnknown, 1},
		{"after the effect, replay-safe", true, func(b *bench) { b.claim(); b.effects.Add(1) }, 1, idempotency.ErrInFlight, nil, 2},
		{"after the record", false, func(b *bench) { b.record1() }, 1, nil, nil, 1},
		{"after the record, replay-safe", true, func(b *bench) { b.record1() }, 1, nil, nil, 1},
		{"after the reply", false, func(b *bench) { b.reply() }, 1, nil, nil, 1},
		{"after the reply, replay-safe", true, func(b *bench) { b.reply() }, 1, nil, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, idempotency.GuardOptions{Lease: lease, ReplaySafe: c.replaySafe}, func(b *bench) {
				c.dies(b)
				b.ran(c.left)
				call := func(want error) {
					b.Helper()
					got, err := b.Do(b.Context(), requestOf("k"), b.effect("r"))
					if !errors.Is(err, want) || err == nil && string(got) != "r" {
						b.Fatalf("%q, %v; want %v", got, err, want)
					}
				}
				call(c.live)
				time.Sleep(lease)
				call(c.then)
				time.Sleep(1000 * time.Hour)
				if c.then != nil { // an unknown outcome stays unknown
					call(c.then)
				}
				b.ran(c.effects)
			})
		})
	}
}

// claim claims "k" as another process that then dies.
func (b *bench) claim() idempotency.Claim {
	b.Helper()
	begun, err := b.store.Idempotency.Begin(b.Context(), idempotency.BeginRequest{
		ID: idempotency.ID{Key: "k"}, Fingerprint: "f", Owner: "the dead", Lease: 30 * time.Second,
	})
	if err != nil || begun.Verdict != idempotency.Run {
		b.Fatal(begun, err)
	}
	return begun.Record.Claim()
}

func (b *bench) record1() {
	c := b.claim()
	b.effects.Add(1)
	err := b.store.Idempotency.Settle(b.Context(), c, idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte("r"), TTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) reply() { b.gets("r")(b.Do(b.Context(), requestOf("k"), b.effect("r"))) }

func TestI5ALongEffectKeepsItsClaim(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		go func() {
			time.Sleep(299 * time.Second)
			b.refused(idempotency.ErrInFlight)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		}()
		b.gets("late")(b.Do(b.Context(), requestOf("k"), b.lasting(305*time.Second)))
		if n := b.store.count("renew"); n != 30 {
			b.Errorf("%d renewals in 305s of a lease of 30s, want 30", n)
		}
		time.Sleep(time.Hour)
		if n := b.store.count("renew"); n != 30 {
			b.Errorf("renewed after the end: %d", n)
		}
		b.ran(1)
	})
}

func TestI5AShortEffectIsNotRenewed(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		for i := range 5 {
			b.gets("late")(b.Do(b.Context(), requestOf(string(rune('a'+i))), b.lasting(9*time.Second)))
		}
		time.Sleep(time.Hour)
		if n := b.store.count("renew"); n != 0 {
			b.Errorf("%d renewals", n)
		}
	})
}

// TestI5EachClaimIsRenewedAtItsOwnTime begins and ends many claims in any order.
func TestI5EachClaimIsRenewedAtItsOwnTime(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		for i, d := range []time.Duration{15, 5, 25, 9, 31, 11, 45, 2} {
			go b.Do(b.Context(), requestOf(string(rune('a'+i))), b.lasting(d*time.Second))
			time.Sleep(3 * time.Second)
		}
		time.Sleep(time.Hour)
		// Renewals at 10, 20, …: 1 for 15, 2 for 25, 3 for 31, 1 for 11, 4 for 45.
		if n := b.store.count("renew"); n != 11 {
			b.Errorf("%d renewals, want 11", n)
		}
		b.ran(8)
		for i := range 8 {
			if r := b.record(string(rune('a' + i))); r.State != idempotency.Completed {
				b.Errorf("%c is %s", 'a'+i, r.State)
			}
		}
	})
}

// TestI5AClaimIsRenewedAfterOthersEnd: a due claim and its successor end while a third begins, which must be renewed.
func TestI5AClaimIsRenewedAfterOthersEnd(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		for _, c := range []struct {
			key         string
			start, last time.Duration
		}{
			{"a", 0, 10900 * time.Millisecond}, {"b", time.Second, 9500 * time.Millisecond}, {"c", 10700 * time.Millisecond, 299 * time.Second},
		} {
			time.AfterFunc(c.start, func() { b.gets("late")(b.Do(b.Context(), requestOf(c.key), b.lasting(c.last))) })
		}
		time.Sleep(time.Hour)
		b.ran(3)
		if n := b.store.count("renew"); n != 1+29 {
			b.Errorf("%d renewals, want 1 of a and 29 of c", n)
		}
	})
}

func TestI5RenewalsContinueWhileAnEffectIgnoresItsContext(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		go func() {
			time.Sleep(2 * time.Minute)
			b.refused(idempotency.ErrInFlight)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		}()
		got, err := b.Do(ctx, requestOf("k"), func(context.Context) ([]byte, error) {
			time.Sleep(5 * time.Minute)
			return b.effect("stubborn")(b.Context())
		})
		b.gets("stubborn")(got, err)
		b.gets("stubborn")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		b.ran(1)
	})
}

func TestI5AFailedRenewalIsRetried(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		begin := time.Now()
		b.store.renew = func() error {
			if d := time.Since(begin); d < 25*time.Second { // until shortly before the lease expires
				return errDown
			}
			return nil
		}
		b.gets("late")(b.Do(b.Context(), requestOf("k"), b.lasting(time.Minute)))
		b.ran(1)
	})
}

func TestI5AnEffectWhoseClaimExpiresIsCancelled(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second, ReplaySafe: true}, func(b *bench) {
		b.store.renew = func() error { return errDown }
		begin := time.Now()
		_, err := b.Do(b.Context(), requestOf("k"), b.lasting(time.Hour))
		if took := time.Since(begin); !errors.Is(err, errDown) || took != 30*time.Second {
			b.Fatalf("after %s: %v", took, err)
		}
	})
}

func TestI5AStaleCompletionIsFencedAndReported(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second, ReplaySafe: true}, func(b *bench) {
		stuck := make(chan struct{})
		done := make(chan struct{})
		b.store.renew = func() error { return errDown }
		go func() {
			defer close(done)
			got, err := b.Do(b.Context(), requestOf("k"), func(context.Context) ([]byte, error) {
				b.effects.Add(1)
				<-stuck
				return []byte("stale"), nil
			})
			var lost *idempotency.RecordError
			if string(got) != "stale" || !errors.Is(err, idempotency.ErrFenced) || !errors.As(err, &lost) || lost.ID.Key != "k" {
				b.Errorf("%q, %v; want the result and ErrFenced", got, err)
			}
			if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent {
				b.Errorf("marked %v, although the effect has happened", mark)
			}
		}()
		time.Sleep(31 * time.Second)
		b.gets("heir")(b.Do(b.Context(), requestOf("k"), b.effect("heir")))
		close(stuck)
		<-done
		b.gets("heir")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		b.ran(2)
		if diff := cmp.Diff([]string{"record", "fenced", "hit"}, b.actions()); diff != "" {
			b.Errorf("actions (-want +got):\n%s", diff)
		}
	})
}

func TestI5AFencedRenewalCancelsTheEffect(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		b.store.renew = func() error { return idempotency.ErrFenced }
		begin := time.Now()
		_, err := b.Do(b.Context(), requestOf("k"), b.lasting(time.Hour))
		if took := time.Since(begin); !errors.Is(err, idempotency.ErrFenced) || took != 10*time.Second {
			b.Fatalf("after %s: %v", took, err)
		}
	})
}

func TestI5TheSettlementEndsARunningRenewal(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		hangs := &hanging{Store: b.store, what: "renew"}
		guard, err := idempotency.NewGuard(hangs, idempotency.GuardOptions{Lease: 30 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		got, err := guard.Do(b.Context(), requestOf("k"), b.lasting(12*time.Second))
		b.gets("late")(got, err)
		if took := time.Since(begin); took != 12*time.Second || hangs.calls != 1 {
			b.Errorf("took %s with %d renewals", took, hangs.calls)
		}
	})
}

// hanging is a store with one operation that hangs until its context ends, always or the first few times.
type hanging struct {
	idempotency.Store
	what  string
	times int // 0 means always
	calls int
}

func (h *hanging) hang(ctx context.Context, what string) error {
	if what != h.what || h.times > 0 && h.calls == h.times {
		return nil
	}
	h.calls++
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	if err := h.hang(ctx, "renew"); err != nil {
		return err
	}
	return h.Store.Renew(ctx, c, lease)
}

func (h *hanging) Settle(ctx context.Context, c idempotency.Claim, s idempotency.Settlement) error {
	if err := h.hang(ctx, "settle"); err != nil {
		return err
	}
	return h.Store.Settle(ctx, c, s)
}

func TestI5AnOutageWhileRecordingMeansOneEffect(t *testing.T) {
	for _, replaySafe := range []bool{false, true} {
		virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second, ReplaySafe: replaySafe}, func(b *bench) {
			b.store.settle = func() error { return errDown }
			begin := time.Now()
			got, err := b.Do(b.Context(), requestOf("k"), b.effect("good"))
			var lost *idempotency.RecordError
			if string(got) != "good" || !errors.As(err, &lost) || !errors.Is(err, errDown) {
				b.Fatalf("%q, %v", got, err)
			}
			if took := time.Since(begin); took != 30*time.Second {
				b.Errorf("retried for %s of a lease of 30s", took)
			}
			if n := b.store.count("settle"); n < 10 {
				b.Errorf("%d attempts to record", n)
			}
			b.ran(1)
			b.store.settle = nil
			if replaySafe {
				b.gets("again")(b.Do(b.Context(), requestOf("k"), b.effect("again")))
				b.ran(2)
				return
			}
			b.refused(idempotency.ErrUnknown)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
			b.ran(1)
			if diff := cmp.Diff([]string{"unknown", "unknown"}, b.actions()); diff != "" {
				b.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestI5AFailedRecordingIsRetriedWithoutTheEffect(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		begin := time.Now()
		b.store.settle = func() error {
			if time.Since(begin) < 20*time.Second {
				return errDown
			}
			return nil
		}
		b.gets("good")(b.Do(b.Context(), requestOf("k"), b.effect("good")))
		b.store.settled = nil
		b.gets("good")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		b.ran(1)
	})
}

func TestI5ARecordingWithALostAnswerIsRetried(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		lost := 0
		b.store.settled = func() error {
			if lost++; lost < 3 {
				return errDown
			}
			return nil
		}
		b.gets("good")(b.Do(b.Context(), requestOf("k"), b.effect("good")))
		b.gets("good")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		b.ran(1)
	})
}

func TestI5AHangingRecordingIsAbandonedInTime(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		for _, times := range []int{1, 2, 0} {
			hangs := &hanging{Store: b.store, what: "settle", times: times}
			guard, err := idempotency.NewGuard(hangs, idempotency.GuardOptions{Lease: 30 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			begin := time.Now()
			got, err := guard.Do(b.Context(), requestOf(string(rune('a'+times))), b.effect("good"))
			took := time.Since(begin)
			if times > 0 {
				b.gets("good")(got, err)
				if took > 21*time.Second {
					b.Errorf("%d hung: took %s", times, took)
				}
				continue
			}
			var lost *idempotency.RecordError
			if string(got) != "good" || !errors.As(err, &lost) || took > 41*time.Second {
				b.Errorf("after %s: %q, %v", took, got, err)
			}
		}
	})
}

func TestI5AnEffectIsRecordedAfterItsCallerCancelled(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		got, err := b.Do(ctx, requestOf("k"), func(ctx context.Context) ([]byte, error) {
			cancel()
			return b.effect("done")(ctx)
		})
		b.gets("done")(got, err)
		b.gets("done")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		b.ran(1)
	})
}

func TestI5AFailureThatCannotBeRecordedIsJoined(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		own := errors.New("own")
		b.store.settle = func() error { return errDown }
		_, err := b.Do(b.Context(), requestOf("k"), b.fails(own))
		var lost *idempotency.RecordError
		if !errors.Is(err, own) || !errors.As(err, &lost) {
			b.Fatalf("%v", err)
		}
		if mark, _ := classify.MarkOf(err); mark != classify.Unmarked {
			b.Errorf("marked %v, but the effect's error is not marked", mark)
		}
	})
}

func TestI4APanicLeavesTheOutcomeUnknownUnlessReplaysAreSafe(t *testing.T) {
	for _, replaySafe := range []bool{false, true} {
		virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second, ReplaySafe: replaySafe}, func(b *bench) {
			func() {
				defer func() {
					if got := recover(); got != "boom" {
						b.Errorf("recovered %v", got)
					}
				}()
				_, _ = b.Do(b.Context(), requestOf("k"), func(context.Context) ([]byte, error) {
					b.effects.Add(1)
					panic("boom")
				})
			}()
			if replaySafe {
				b.gets("again")(b.Do(b.Context(), requestOf("k"), b.effect("again")))
				b.ran(2)
				return
			}
			b.refused(idempotency.ErrInFlight)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
			time.Sleep(30 * time.Second)
			b.refused(idempotency.ErrUnknown)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
			b.ran(1)
			if n := b.store.count("renew"); n != 0 {
				b.Errorf("%d renewals of an abandoned claim", n)
			}
		})
	}
}

func TestI4AnEffectThatEndsItsGoroutineIsUnknown(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		go b.Do(b.Context(), requestOf("k"), func(context.Context) ([]byte, error) {
			runtime.Goexit()
			return nil, nil
		})
		time.Sleep(31 * time.Second)
		b.refused(idempotency.ErrUnknown)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
	})
}

func TestI5TicketsByHand(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 30 * time.Second}, func(b *bench) {
		begin := func(key string) *idempotency.Ticket {
			b.Helper()
			ticket, err := b.Begin(b.Context(), requestOf(key))
			if err != nil {
				b.Fatal(err)
			}
			return ticket
		}
		ticket := begin("completed")
		if result, present := ticket.Result(); ticket.Replayed() || present || result != nil {
			b.Errorf("%v %q", ticket.Replayed(), result)
		}
		ctx := ticket.Context()
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			b.Fatal("the context ended under a live claim")
		}
		for range 2 { // a repetition is fine
			if err := ticket.Complete(b.Context(), nil, false); err != nil {
				b.Fatal(err)
			}
		}
		if ctx.Err() == nil {
			b.Error("the context did not end with the settlement")
		}
		if err := ticket.Fail(b.Context(), errDown); !errors.Is(err, idempotency.ErrFenced) {
			b.Errorf("settled twice: %v", err)
		}
		again := begin("completed")
		if result, present := again.Result(); !again.Replayed() || present || result != nil || again.Context() != nil {
			b.Errorf("%v %q %v", again.Replayed(), result, present)
		}
		again.Abandon() // no effect
		if err := again.Release(b.Context(), nil); !errors.Is(err, idempotency.ErrFenced) {
			b.Errorf("a replayed ticket was settled: %v", err)
		}

		if err := begin("failed").Fail(b.Context(), errDown); err != nil {
			b.Fatal(err)
		}
		if r := b.record("failed"); r.State != idempotency.Failed || r.Failure.Message != errDown.Error() {
			b.Errorf("%+v", r)
		}
		if err := begin("released").Release(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
		if r := b.record("released"); r.State != idempotency.Released || r.Failure != nil {
			b.Errorf("%+v", r)
		}
		lost := begin("abandoned")
		time.Sleep(11 * time.Second)
		lost.Abandon()
		if lost.Context().Err() == nil {
			b.Error("the context did not end with the claim")
		}
		time.Sleep(time.Minute)
		_, err := b.Begin(b.Context(), requestOf("abandoned"))
		b.refused(idempotency.ErrUnknown)(nil, err)
		synctest.Wait()
	})
}

func TestI5ASettlementMayBeRetriedAfterARecordError(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		ticket, err := b.Begin(b.Context(), requestOf("k"))
		if err != nil {
			b.Fatal(err)
		}
		b.store.settle = func() error { return errDown }
		var lost *idempotency.RecordError
		if err := ticket.Complete(b.Context(), []byte("r"), true); !errors.As(err, &lost) {
			b.Fatal(err)
		}
		b.store.settle = nil
		if err := ticket.Complete(b.Context(), []byte("r"), true); err != nil {
			b.Fatal(err)
		}
		b.gets("r")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
	})
}

// TestI4OnlyValidSettlementsAreMade checks settlements by claims and by operators: they need a final state and a TTL.
func TestI4OnlyValidSettlementsAreMade(t *testing.T) {
	now := time.Now()
	begun, _ := idempotency.Begin(nil, idempotency.BeginRequest{ID: idempotency.ID{Key: "k"}, Owner: "o", Lease: time.Second}, now)
	record := &begun.Record
	for want, s := range map[string]idempotency.Settlement{
		`settled as "in_flight"`:    {State: idempotency.InFlight, TTL: time.Hour},
		"ttl 0s: must be more":      {State: idempotency.Completed},
		"ttl -1s: must be more":     {State: idempotency.Failed, TTL: -time.Second},
		`settled as "unknown"; use`: {State: idempotency.Unknown, TTL: time.Hour},
	} {
		if _, write, err := idempotency.Settle(record, record.Claim(), s, now); write || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("settled %+v: %v", s, err)
		}
		if _, err := idempotency.Resolve(record, record.Claim(), s, now.Add(time.Minute)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("resolved %+v: %v", s, err)
		}
	}
}
