package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestC5ClassifiersJudgeErrorsOfSteps: a classifier that knows values of one type does not meet results of tasks.
func TestC5ClassifiersJudgeErrorsOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strict := classify.Func(func(value any, err error) classify.Outcome {
			if value != nil {
				t.Errorf("the classifier was shown a %T", value)
			}
			return classify.Default(nil, err)
		})
		var p policy.Producer
		p.Steps.Produce.Retry.MaxAttempts, p.Steps.Produce.Retry.ClassifierName = 2, "strict"
		attempts := 0
		sink := pipeline.SinkFunc(func(context.Context, *pipeline.Transaction) error {
			if attempts++; attempts == 1 {
				return errors.New("down")
			}
			return nil
		})
		producer := pipeline.NewProducer(sink, nil, p, pipeline.WithExecutorOptions(retry.ExecutorOptions{
			Classifiers: map[string]classify.Classifier{"strict": strict},
		}))
		summary, err := producer.Run(t.Context(), pipeline.Transactions(pipeline.NewTransaction("a", nil)))
		if err != nil || summary.Success != 1 || attempts != 2 {
			t.Errorf("%+v after %d attempts: %v", summary, attempts, err)
		}
	})
}
