package pipeline_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tenetdev/tenet/pipeline"
)

// fickle reads well for some times, and then no more.
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

// TestL4ATypedSuccessThatCannotBeReadIsAnExceptionAtOnce: the success step reads the payload, and a result that was written,
// again. What cannot be read is not retried, and nothing is processed twice.
func TestL4ATypedSuccessThatCannotBeReadIsAnExceptionAtOnce(t *testing.T) {
	cases := map[string]struct {
		codec   fickle
		result  pipeline.Codec[string]
		payload bool // it is the payload that cannot be read
	}{
		"payload": {fickle{reads: 1}, nil, true},
		"result":  {fickle{reads: 9}, &fickle{}, false},
	}
	for name, c := range cases {
		bubble(t, name, func(t *testing.T) {
			processed, succeeded := 0, 0
			typed := pipeline.Typed[string, string]{
				Codec: &c.codec, Result: c.result,
				Process: func(_ context.Context, item pipeline.Item[string]) (string, error) {
					processed++
					return item.Value, nil
				},
				Success:   func(context.Context, pipeline.Item[string], string) error { succeeded++; return nil },
				Exception: func(context.Context, pipeline.Item[string], error) error { return nil },
			}
			p := consumerPolicy(1, 1)
			p.Steps.Success = retries(5)
			var l ledger
			summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a")...), typed.Task(), p, l.option()).Run(bg)
			if err != nil || summary.Exception != 1 || summary.Retries != 0 || processed != 1 || succeeded != 0 {
				t.Fatal(summary, err, processed, succeeded)
			}
			var failed *pipeline.TransactionError
			var payload *pipeline.PayloadError
			cause := l.err("a")
			if !errors.As(cause, &failed) || failed.Step != "success" || errors.As(cause, &payload) != c.payload || !errors.Is(cause, errDown) {
				t.Error(cause)
			}
		})
	}
}
