package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/pipeline"
)

func TestMemorySourceRedeliversInTheOrderOfTheDelays(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := pipeline.NewMemorySource(transactions("a", "b", "c", "d")...)
		got, err := s.Fetch(bg, pipeline.FetchRequest{Max: 10})
		if err != nil || len(got) != 4 {
			t.Fatal(got, err)
		}
		for i, delay := range []time.Duration{3 * time.Second, time.Second, 3 * time.Second} {
			if err := s.Nack(bg, got[i], delay, nil); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		if waiting, out := s.Len(); waiting != 3 || out != 1 {
			t.Error(waiting, out)
		}
		start := time.Now()
		var order []string
		var times []time.Duration
		for range 3 {
			again, err := s.Fetch(bg, pipeline.FetchRequest{Max: 1, Wait: time.Minute})
			if err != nil || len(again) != 1 || again[0].Count != 2 {
				t.Fatal(again, err)
			}
			order, times = append(order, again[0].Transaction.ID()), append(times, time.Since(start))
			s.Ack(bg, again)
		}
		if diff := cmp.Diff([]string{"b", "a", "c"}, order); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]time.Duration{time.Second, 3 * time.Second, 3 * time.Second}, times); diff != "" {
			t.Error(diff)
		}
		if again, err := s.Fetch(bg, pipeline.FetchRequest{Max: 1}); len(again) > 0 || err != nil {
			t.Error("the source ends while d is held", again, err)
		}
		time.AfterFunc(time.Second, func() { s.Ack(bg, got[3:]) })
		if _, err := s.Fetch(bg, pipeline.FetchRequest{Max: 1, Wait: time.Minute}); !errors.Is(err, pipeline.ErrEnd) {
			t.Error(err)
		}
	})
}

func TestL11ARepeatedSettlementOfAMemorySourceSettlesNothingElse(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := pipeline.NewMemorySource(transactions("a", "b")...)
		s.Close()
		got, err := s.Fetch(bg, pipeline.FetchRequest{Max: 2})
		if err != nil || len(got) != 2 {
			t.Fatal(got, err)
		}
		for range 2 {
			if errs := s.Ack(bg, got[:1]); errs != nil {
				t.Error(errs)
			}
		}
		if err := s.Nack(bg, got[0], 0, nil); err == nil {
			t.Error("an acknowledged transaction was given back")
		}
		if waiting, out := s.Len(); waiting != 0 || out != 1 || len(s.Acked()) != 1 {
			t.Error(waiting, out, s.Acked())
		}
		if _, err := s.Fetch(bg, pipeline.FetchRequest{Max: 1}); err != nil {
			t.Error("the source ends while b is held", err)
		}
		if err := s.Nack(bg, got[1], 0, nil); err != nil {
			t.Error(err)
		}
		if err := s.Nack(bg, got[1], 0, nil); err == nil {
			t.Error("b was given back twice")
		}
		if waiting, out := s.Len(); waiting != 1 || out != 0 {
			t.Error(waiting, out)
		}
	})
}

// TestL11ALateSettlementOfAMemorySourceLeavesTheRedeliveryHeld: the delivery has been given back before it.
func TestL11ALateSettlementOfAMemorySourceLeavesTheRedeliveryHeld(t *testing.T) {
	s := pipeline.NewMemorySource(transactions("a")...)
	s.Close()
	var got [2][]pipeline.Delivery
	for i := range got {
		var err error
		if got[i], err = s.Fetch(bg, pipeline.FetchRequest{Max: 1}); err != nil || len(got[i]) != 1 {
			t.Fatal(got[i], err)
		}
		if i == 0 {
			if err := s.Nack(bg, got[0][0], 0, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if errs := s.Ack(bg, got[0]); errs != nil {
		t.Error(errs)
	}
	if err := s.Nack(bg, got[0][0], 0, nil); err == nil {
		t.Error("the first delivery was given back twice")
	}
	if waiting, out := s.Len(); waiting != 0 || out != 1 || len(s.Acked()) > 0 {
		t.Error(waiting, out, s.Acked())
	}
	s.Ack(bg, got[1])
	if _, err := s.Fetch(bg, pipeline.FetchRequest{Max: 1}); !errors.Is(err, pipeline.ErrEnd) {
		t.Error(err)
	}
}

func TestMemorySourceWaitsAndObeysItsContext(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := pipeline.NewMemorySource()
		time.AfterFunc(time.Second, func() { s.Add(transactions("a")...) })
		start := time.Now()
		if got, err := s.Fetch(bg, pipeline.FetchRequest{Max: 1, Wait: time.Minute}); err != nil || len(got) != 1 || time.Since(start) != time.Second {
			t.Error(got, err)
		}
		if got, err := s.Fetch(bg, pipeline.FetchRequest{Max: 1, Wait: 5 * time.Second}); err != nil || len(got) != 0 || time.Since(start) != 6*time.Second {
			t.Error(got, err)
		}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if _, err := s.Fetch(ctx, pipeline.FetchRequest{Max: 1, Wait: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		var sink pipeline.MemorySink
		if err := sink.Dispatch(ctx, transactions("a")[0]); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestTransactionsAreImmutable(t *testing.T) {
	meta := map[string]string{"k": "v"}
	x := pipeline.NewTransaction("", []byte("p"), pipeline.WithMetadata(meta), pipeline.WithParent("parent"))
	meta["k"] = "changed"
	x.AllMetadata()["k"] = "changed"
	if x.Metadata("k") != "v" || x.Parent() != "parent" || len(x.ID()) != 36 {
		t.Errorf("%+v", x)
	}
	y := x.With(pipeline.WithID("y"), pipeline.WithMetadata(map[string]string{"l": "w"}), pipeline.WithPayload(nil))
	if y.ID() != "y" || y.Metadata("k") != "v" || y.Metadata("l") != "w" || y.Payload() != nil || y.Parent() != "parent" {
		t.Errorf("%+v", y)
	}
	if x.Metadata("l") != "" || string(x.Payload()) != "p" {
		t.Errorf("%+v", x)
	}
}
