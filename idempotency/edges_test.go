package idempotency_test

import (
	"context"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/policy"
)

type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text } // panics if e is nil

// TestI4APanicInTheErrorOfAnEffectGivesUpItsClaim: the user's code also runs while an error is judged.
func TestI4APanicInTheErrorOfAnEffectGivesUpItsClaim(t *testing.T) {
	classifier := classify.Func(func(any, error) classify.Outcome { panic("classifier") })
	for _, o := range []idempotency.GuardOptions{{}, {Classify: classifier}, {Classify: classifier, ReplaySafe: true}} {
		o.Lease = 3 * time.Second
		virtual(t, o, func(b *bench) {
			func() {
				defer func() {
					if recover() == nil {
						b.Error("no panic")
					}
				}()
				_, _ = b.Do(b.Context(), requestOf("k"), func(context.Context) ([]byte, error) {
					if o.Classify == nil {
						var e *typedNil
						return nil, e
					}
					return nil, errDown
				})
			}()
			time.Sleep(time.Hour)
			if _, err := b.Do(b.Context(), requestOf("k"), b.effect("x")); errors.Is(err, idempotency.ErrInFlight) || b.store.count("renew") > 0 {
				b.Errorf("an hour later: %v; renewals %d", err, b.store.count("renew"))
			}
		})
	}
}

// hangingRenewals is a store whose renewals hang.
type hangingRenewals struct{ *memory.Idempotency }

func (hangingRenewals) Renew(ctx context.Context, _ idempotency.Claim, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestI3AnEffectEndsWithItsLeaseThoughARenewalHangs(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		const lease = 30 * time.Second
		g, err := idempotency.NewGuard(hangingRenewals{b.store.Idempotency}, idempotency.GuardOptions{Lease: lease, ReplaySafe: true})
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		_, _ = g.Do(b.Context(), requestOf("k"), func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			if d := time.Since(began); d > lease {
				b.Errorf("the context ended after %s: %v", d, context.Cause(ctx))
			}
			return nil, errDown
		})
	})
}

// TestI3RenewalsCountFromTheRequest: the store's answer to a claim may take long, and the lease runs meanwhile.
func TestI3RenewalsCountFromTheRequest(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: 3 * time.Second}, func(b *bench) {
		slow := make(chan time.Duration, 1)
		b.store.after = func() error {
			select {
			case d := <-slow:
				time.Sleep(d)
			default:
			}
			return nil
		}
		slow <- 1900 * time.Millisecond
		done := make(chan struct{}, 2)
		run := func(key string) {
			if _, err := b.Do(b.Context(), requestOf(key), b.lasting(10*time.Second)); err != nil {
				b.Errorf("%s: %v", key, err)
			}
			done <- struct{}{}
		}
		go run("slow")
		time.Sleep(1850 * time.Millisecond)
		go run("quick") // its claim comes first, and is due later
		time.Sleep(100 * time.Millisecond)
		if b.store.count("renew") == 0 {
			b.Error("a claim that was due a second ago is not renewed")
		}
		<-done
		<-done
	})
}

type money struct{ cents int64 }

func (m *money) MarshalJSON() ([]byte, error) { return big.NewInt(m.cents).MarshalJSON() }

type charge struct {
	Order  string
	Amount money
}

// TestI2MethodsOfPointersEncodeValues: a type may have its JSON form on its pointer only.
func TestI2MethodsOfPointersEncodeValues(t *testing.T) {
	one, two := charge{"7", money{100}}, charge{"7", money{200}}
	for name, pair := range map[string][2]any{
		"pointer":  {&one, &two},
		"value":    {one, two},
		"elements": {[]charge{one}, []charge{two}},
		"numbers":  {[]big.Int{*big.NewInt(1)}, []big.Int{*big.NewInt(2)}},
		"map":      {map[string]money{"a": {1}}, map[string]money{"a": {2}}},
	} {
		a, err := idempotency.Fingerprint(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		if b, err := idempotency.Fingerprint(pair[1]); err != nil || a == b {
			t.Errorf("%s: the same fingerprint, %v", name, err)
		}
	}
	a, _ := idempotency.Fingerprint(one)
	if b, err := idempotency.Fingerprint(&one); err != nil || a != b {
		t.Errorf("a value and its pointer differ, %v", err)
	}
}

// TestI5TheTTLCoversWaitsForLimits: each retry may wait for its place.
func TestI5TheTTLCoversWaitsForLimits(t *testing.T) {
	db := memory.Open()
	defer db.Close()
	p := policy.Policy{
		Retry: policy.Retry{
			MaxAttempts: 3, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond, Jitter: policy.JitterNone,
			TimeoutPerAttempt: 10 * time.Millisecond, MaxPushback: time.Millisecond,
		},
		Limit: policy.Limit{Concurrency: 1, MaxWait: 30 * time.Second},
	}
	for ttl, want := range map[time.Duration]bool{time.Second: false, time.Minute: false, 2 * time.Minute: true} {
		if _, err := idempotency.NewGuard(db.Idempotency(), idempotency.GuardOptions{TTL: ttl, Policies: []policy.Policy{p}}); (err == nil) != want {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}
