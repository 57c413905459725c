package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
)

func TestL3ATaskWorksOnValues(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var out pipeline.MemorySink
		var successes, failures []int
		var causes []error
		task := pipeline.Task[order, receipt]{
			Process: func(ctx context.Context, o order) (receipt, error) {
				if pipeline.TransactionOf(ctx).ID() == "b" {
					return receipt{}, classify.Business(errDown)
				}
				return receipt{Paid: o.Amount * 2}, nil
			},
			Sink: &out,
			Success: func(_ context.Context, o order, r receipt) error {
				successes = append(successes, o.Amount, r.Paid)
				return nil
			},
			Exception: func(ctx context.Context, o order, cause error) error {
				failures, causes = append(failures, o.Amount), append(causes, cause)
				if pipeline.TransactionOf(ctx) == nil {
					t.Error("the exception handler does not find its transaction")
				}
				return nil
			},
		}
		source := pipeline.NewMemorySource(
			pipeline.NewTransaction("a", []byte(`{"Amount":3}`)),
			pipeline.NewTransaction("b", []byte(`{"Amount":-1}`)),
			pipeline.NewTransaction("c", []byte(`{"Amount":4,"Amount":"x"}`)),
		)
		p := consumerPolicy(1, 3)
		p.Steps.Process = retries(5)
		summary, err := pipeline.NewConsumer(source, task, p).Run(bg)
		if err != nil || summary.Success != 1 || summary.Exception != 2 || summary.Retries != 0 {
			t.Fatal(summary, err)
		}
		if diff := cmp.Diff([]int{3, 6}, successes); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]int{-1, 0}, failures); diff != "" {
			t.Error(diff)
		}
		var payload *pipeline.PayloadError
		var wrong *json.UnmarshalTypeError
		if !errors.As(causes[1], &payload) || payload.ID != "c" || !errors.As(causes[1], &wrong) {
			t.Error(causes[1])
		}
		if got := string(out.Transactions()[0].Payload()); got != `{"Paid":6}` {
			t.Error(got)
		}
		if pipeline.TransactionOf(bg) != nil {
			t.Error("there is a transaction outside a task")
		}
	})
}

// decimal encodes numbers as text.
type decimal struct{}

func (decimal) Encode(n int) ([]byte, error) { return strconv.AppendInt(nil, int64(n), 10), nil }
func (decimal) Decode(b []byte) (int, error) { return strconv.Atoi(string(b)) }

func TestL10AProducerWritesValues(t *testing.T) {
	bubble(t, "as they are", func(t *testing.T) {
		var out pipeline.MemorySink
		var known []order
		task := pipeline.Task[order, order]{
			ID:      func(o order) string { return strconv.Itoa(o.Amount) },
			Success: func(_ context.Context, in, out order) error { known = append(known, in, out); return nil },
		}
		summary, err := pipeline.NewProducer(&out, task, producerPolicy(1, 1)).Run(bg, pipeline.Values(order{1}, order{2}))
		if err != nil || summary.Success != 2 {
			t.Fatal(summary, err)
		}
		if diff := cmp.Diff([]order{{1}, {1}, {2}, {2}}, known); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"1", "2"}, ids(out.Transactions())); diff != "" {
			t.Error(diff)
		}
		if got := out.Transactions()[0]; string(got.Payload()) != `{"Amount":1}` || got.Parent() != "" {
			t.Errorf("%+v", got)
		}
	})
	bubble(t, "prepared, by codecs", func(t *testing.T) {
		var out, second pipeline.MemorySink
		task := pipeline.Task[int, int]{
			Process: func(_ context.Context, n int) (int, error) { return n * 2, nil },
			Input:   decimal{}, Output: decimal{}, Sink: &second,
		}
		summary, err := pipeline.NewProducer(&out, task, producerPolicy(1, 1)).Run(bg, pipeline.Values(21))
		if err != nil || summary.Success != 1 {
			t.Fatal(summary, err)
		}
		for _, sink := range []*pipeline.MemorySink{&out, &second} {
			if got := sink.Transactions(); len(got) != 1 || string(got[0].Payload()) != "42" || got[0].ID() == "" {
				t.Errorf("%+v", got)
			}
		}
	})
	bubble(t, "payloads", func(t *testing.T) {
		var out pipeline.MemorySink
		summary, err := pipeline.NewProducer(&out, pipeline.Task[[]byte, []byte]{}, producerPolicy(1, 1)).Run(bg, pipeline.Values([]byte("x")))
		if err != nil || summary.Success != 1 || string(out.Transactions()[0].Payload()) != "x" {
			t.Error(summary, err)
		}
	})
	bubble(t, "that cannot be encoded", func(t *testing.T) {
		var out pipeline.MemorySink
		summary, err := pipeline.NewProducer(&out, pipeline.Task[chan int, chan int]{}, producerPolicy(1, 1)).Run(bg, pipeline.Values(make(chan int)))
		var unsupported *json.UnsupportedTypeError
		if !errors.As(err, &unsupported) || summary.Fetched != 0 {
			t.Error(summary, err)
		}
	})
}

// fickle decodes a few times and then fails.
type fickle struct {
	pipeline.JSON[string]
	reads int
}

func (f *fickle) Decode(b []byte) (string, error) {
	if f.reads--; f.reads < 0 {
		return "", errDown
	}
	return f.JSON.Decode(b)
}

// TestL4ASuccessStepThatCannotReadThePayloadIsAnExceptionAtOnce checks that no step is retried or run twice.
func TestL4ASuccessStepThatCannotReadThePayloadIsAnExceptionAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		processed, succeeded := 0, 0
		task := pipeline.Task[string, string]{
			Input: &fickle{reads: 1},
			Process: func(_ context.Context, text string) (string, error) {
				processed++
				return text, nil
			},
			Success:   func(context.Context, string, string) error { succeeded++; return nil },
			Exception: func(context.Context, string, error) error { return nil },
		}
		p := consumerPolicy(1, 1)
		p.Steps.Success = retries(5)
		var l ledger
		summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a")...), task, p, l.option()).Run(bg)
		if err != nil || summary.Exception != 1 || summary.Retries != 0 || processed != 1 || succeeded != 0 {
			t.Fatal(summary, err, processed, succeeded)
		}
		var failed *pipeline.TransactionError
		var payload *pipeline.PayloadError
		if cause := l.err("a"); !errors.As(cause, &failed) || failed.Step != "success" || !errors.As(cause, &payload) || !errors.Is(cause, errDown) {
			t.Error(cause)
		}
	})
}

// TestL12APayloadThatDoesNotFitIsNotQuoted checks the error that logs, records and dead letters hold.
func TestL12APayloadThatDoesNotFitIsNotQuoted(t *testing.T) {
	var letters pipeline.MemorySink
	source := pipeline.NewMemorySource(pipeline.NewTransaction("a", []byte(`{"Card":4111111111111111}`)))
	task := pipeline.Handle(func(context.Context, struct{ Card int32 }) error { return nil })
	if _, err := pipeline.NewConsumer(source, task, consumerPolicy(1, 1), pipeline.WithDeadLetter(&letters)).Run(bg); err != nil {
		t.Fatal(err)
	}
	text := letters.Transactions()[0].Metadata(pipeline.MetaError)
	if !strings.Contains(text, "Card: a JSON number is not int32") || strings.Contains(text, "4111") {
		t.Error(text)
	}
}
