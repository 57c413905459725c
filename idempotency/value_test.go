package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
)

type receipt struct {
	ID     string  `json:"id"`
	Amount float64 `json:"amount"`
}

// replays runs a value twice and checks that the second call returns the first value.
func replays[T any](t *testing.T, value T) {
	t.Helper()
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		for range 2 {
			got, err := idempotency.DoValue(b.Context(), b.Guard, requestOf("k"), func(context.Context) (T, error) {
				b.effects.Add(1)
				return value, nil
			})
			if err != nil {
				b.Fatal(err)
			}
			if diff := cmp.Diff(value, got); diff != "" {
				b.Errorf("%T (-want +got):\n%s", value, diff)
			}
		}
		b.ran(1)
	})
}

func TestI5NullZeroEmptyAndFalseAreResults(t *testing.T) {
	replays(t, 0)
	replays(t, "")
	replays(t, false)
	replays[*receipt](t, nil)
	replays[[]int](t, nil)
	replays(t, []int{})
	replays[map[string]int](t, nil)
	replays[any](t, nil)
	replays(t, struct{}{})
	replays(t, receipt{})
	replays(t, &receipt{ID: "r1", Amount: 12.5})
	replays[[]byte](t, nil)
	replays(t, []byte{})
}

// broken is a codec that fails.
type broken struct{ encode, decode error }

func (c broken) Encode(s string) ([]byte, error)   { return []byte(s), c.encode }
func (c broken) Decode(raw []byte) (string, error) { return string(raw), c.decode }

// keyed is a request with the key "k".
func keyed[T any](codec idempotency.Codec[T]) idempotency.Effect[T] {
	return idempotency.Effect[T]{Request: idempotency.Request{Key: "k"}, Codec: codec}
}

func TestI5AnEffectWithAnUnencodableResultStillCounts(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		for i, want := range []string{"result", ""} { // the caller that ran it has the result
			got, err := idempotency.Once(b.Context(), b.Guard, keyed[string](broken{encode: errDown}), func(context.Context) (string, error) {
				b.effects.Add(1)
				return "result", nil
			}).Result()
			var kept *idempotency.ResultError
			if got != want || !errors.As(err, &kept) || kept.Failure.Type != idempotency.FailureResultNotEncoded || errors.Is(err, idempotency.ErrResultTooLarge) {
				b.Errorf("%d: %q, %v", i, got, err)
			}
		}
		b.ran(1)
		if r := b.record("k"); r.State != idempotency.Completed || r.HasResult {
			b.Errorf("%+v", r)
		}
	})
}

func TestI3AnEffectWithoutAResultIsReplayed(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		for range 2 {
			_, err := idempotency.Once(b.Context(), b.Guard, keyed[struct{}](nil), func(context.Context) (struct{}, error) {
				b.effects.Add(1)
				return struct{}{}, nil
			}).Result()
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ran(1)
	})
}

func TestI4AnErrorMarkedOutcomeUnknownIsUnknown(t *testing.T) {
	if err := idempotency.OutcomeUnknown(nil); err != nil {
		t.Errorf("nil becomes %v", err)
	}
	for _, safe := range []bool{false, true} {
		virtual(t, idempotency.GuardOptions{ReplaySafe: safe}, func(b *bench) {
			if got := b.ReplaySafe(); got != safe {
				b.Errorf("ReplaySafe %t", got)
			}
			_, err := b.Do(b.Context(), requestOf("k"), b.fails(idempotency.OutcomeUnknown(errDown)))
			if !errors.Is(err, errDown) {
				b.Error(err)
			}
			if safe {
				b.gets("r")(b.Do(b.Context(), requestOf("k"), b.effect("r")))
				return
			}
			b.refused(idempotency.ErrInFlight)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
			time.Sleep(time.Minute)
			b.refused(idempotency.ErrUnknown)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
			b.ran(1)
		})
	}
}

func TestI5AResultThatCannotBeDecodedRunsNothing(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		run := func() (string, error) {
			return idempotency.Once(b.Context(), b.Guard, keyed[string](broken{decode: errDown}), func(context.Context) (string, error) {
				b.effects.Add(1)
				return "result", nil
			}).Result()
		}
		if got, err := run(); got != "result" || err != nil {
			b.Fatalf("%q, %v", got, err)
		}
		var kept *idempotency.ResultError
		if got, err := run(); got != "" || !errors.Is(err, errDown) || !errors.As(err, &kept) || kept.Failure.Type != idempotency.FailureResultNotDecoded {
			b.Errorf("%q, %v", got, err)
		}
		b.ran(1)
	})
}

func TestI5ARecordWithoutAResultHasNoValue(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		ticket, err := b.Begin(b.Context(), requestOf("k"))
		if err != nil {
			b.Fatal(err)
		}
		if err := ticket.Complete(b.Context(), nil, false); err != nil {
			b.Fatal(err)
		}
		_, err = idempotency.DoValue(b.Context(), b.Guard, requestOf("k"), func(context.Context) (int, error) { b.effects.Add(1); return 1, nil })
		var none *idempotency.ResultError
		if !errors.As(err, &none) || none.Failure.Type != idempotency.FailureNoResult {
			b.Errorf("%v", err)
		}
		b.gets("")(b.Do(b.Context(), requestOf("k"), b.effect("no")))
		b.ran(0)
	})
}

func TestI5AnEffectWithAnOversizedResultStillCounts(t *testing.T) {
	virtual(t, idempotency.GuardOptions{MaxResult: 10}, func(b *bench) {
		b.gets("0123456789")(b.Do(b.Context(), requestOf("fits"), b.effect("0123456789")))
		got, err := b.Do(b.Context(), requestOf("k"), b.effect("0123456789x"))
		if string(got) != "0123456789x" || !errors.Is(err, idempotency.ErrResultTooLarge) {
			b.Fatalf("%q, %v", got, err)
		}
		if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent {
			b.Errorf("marked %v", mark)
		}
		b.ran(2)
		for range 2 {
			_, err := b.Do(b.Context(), requestOf("k"), b.effect("no"))
			var kept *idempotency.ResultError
			b.refused(idempotency.ErrResultTooLarge)(nil, err)
			if want := "idempotency: k is done, but has no result to return: the result has 11 bytes, more than the limit of 10"; !errors.As(err, &kept) || kept.Error() != want {
				b.Errorf("%v", err)
			}
		}
		b.ran(2)
		b.store.settle = func() error { return errDown }
		var lost *idempotency.RecordError
		if got, err := b.Do(b.Context(), requestOf("l"), b.effect("0123456789x")); string(got) != "0123456789x" || !errors.As(err, &lost) {
			b.Errorf("%q, %v", got, err)
		}
	})
}

func TestI5AnEmptyResultIsNotAMissingOne(t *testing.T) {
	virtual(t, idempotency.GuardOptions{}, func(b *bench) {
		ticket, err := b.Begin(b.Context(), requestOf("k"))
		if err != nil {
			b.Fatal(err)
		}
		if err := ticket.Complete(b.Context(), nil, true); err != nil {
			b.Fatal(err)
		}
		if got, err := b.Do(b.Context(), requestOf("k"), b.effect("no")); got == nil || len(got) != 0 || err != nil {
			b.Errorf("%#v, %v", got, err)
		}
		b.ran(0)
	})
}

func TestI4ACodecThatPanicsLeavesTheOutcomeUnknown(t *testing.T) {
	virtual(t, idempotency.GuardOptions{Lease: time.Second}, func(b *bench) {
		func() {
			defer func() { _ = recover() }()
			_, _ = idempotency.DoValue(b.Context(), b.Guard, requestOf("k"), func(context.Context) (explosive, error) { return explosive{}, nil })
		}()
		time.Sleep(time.Second)
		b.refused(idempotency.ErrUnknown)(b.Do(b.Context(), requestOf("k"), b.effect("no")))
	})
}

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("boom") }

func TestErrorsNameOperationAndKey(t *testing.T) {
	id := idempotency.ID{Tenant: "acme", Operation: "charge", Key: "k1"}
	for want, err := range map[string]error{
		"idempotency: key: is empty": idempotency.CheckKey(""),
		"declined":                   &idempotency.Failure{Type: "t", Message: "declined"},
		"idempotency: the key is in flight: acme/charge/k1: try again after 2s":        &idempotency.InFlightError{ID: id, RetryAfter: 2 * time.Second},
		"idempotency: acme/charge/k1 has failed for good: declined":                    &idempotency.FailureError{ID: id, Failure: idempotency.Failure{Type: "t", Message: "declined"}},
		"idempotency: acme/charge/k1 has run, but could not be recorded: out of paper": &idempotency.RecordError{ID: id, Err: errors.New("out of paper")},
		"idempotency: the store is unavailable: acme/charge/k1: connection refused":    &idempotency.StoreError{ID: id, Err: errDown},
	} {
		if fmt.Sprint(err) != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
	var f *idempotency.Failure
	if !errors.As(&idempotency.FailureError{Failure: idempotency.Failure{Type: "t"}}, &f) || f.Type != "t" {
		t.Error("the failure is not in the tree")
	}
}
