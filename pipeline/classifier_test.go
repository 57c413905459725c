package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// TestC5ClassifiersJudgeErrorsOfSteps checks that a classifier for values of one type does not get the results of tasks.
func TestC5ClassifiersJudgeErrorsOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strict := classify.Func(func(value any, err error) classify.Outcome {
			if value != nil {
				t.Errorf("the classifier got a %T", value)
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
		producer := pipeline.NewProducer(sink, pipeline.Raw{}, p, pipeline.WithExecutorOptions(retry.ExecutorOptions{
			Classifiers: map[string]classify.Classifier{"strict": strict},
		}))
		summary, err := producer.Run(t.Context(), pipeline.Values(pipeline.NewTransaction("a", nil)))
		if err != nil || summary.Success != 1 || attempts != 2 {
			t.Errorf("%+v after %d attempts: %v", summary, attempts, err)
		}
	})
}

func TestL5AStepThatSucceededIsNotRepeatedByItsClassifier(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		again := classify.Func(func(any, error) classify.Outcome {
			return classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem}
		})
		p := consumerPolicy(2, 2)
		for _, r := range []*policy.Retry{&p.Steps.Fetch.Retry, &p.Steps.Process.Retry, &p.Steps.Success.Retry} {
			r.MaxAttempts, r.ClassifierName = 2, "again"
		}
		source := newScripted(answer{ids: []string{"a", "b"}}, answer{ids: []string{"c", "d"}}, answer{err: pipeline.ErrEnd})
		s := &script{handlers: "s"}
		summary, err := pipeline.NewConsumer(source, s.task(), p, pipeline.WithExecutorOptions(retry.ExecutorOptions{
			Classifiers: map[string]classify.Classifier{"again": again},
		})).Run(bg)
		if err != nil || summary.Success != 4 || summary.Retries != 0 || s.count("process a") != 1 || s.count("success a") != 1 {
			t.Errorf("%+v, %v, log: %v", summary, err, s.log)
		}
		if diff := cmp.Diff([]int{2, 2, 2}, asked(source)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestC1TheCategoryOfAFailureIsThatOfItsOutcome checks errors that bear no mark: the classifier, a class or the judge names the category.
func TestC1TheCategoryOfAFailureIsThatOfItsOutcome(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		judge := classify.Func(func(any, error) classify.Outcome {
			return classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness}
		})
		executor := pipeline.WithExecutorOptions(retry.ExecutorOptions{Classifiers: map[string]classify.Classifier{"judge": judge}})
		for _, failing := range []string{"process", "success"} {
			var letters pipeline.MemorySink
			var l ledger
			p := consumerPolicy(1, 1)
			p.Steps.Process.Retry.ClassifierName, p.Steps.Success.Retry.ClassifierName = "judge", "judge"
			s := &script{handlers: "s"}
			if bad := map[string][]act{"a": {{err: errDown}}}; failing == "process" {
				s.process = bad
			} else {
				s.success = bad
				p.Steps.Process.Retry.ClassifierName = ""
			}
			summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a")...), s.task(), p, executor, l.option(),
				pipeline.WithDeadLetter(&letters)).Run(bg)
			if err != nil || summary.Exception != 1 {
				t.Fatal(summary, err)
			}
			var failed *pipeline.TransactionError
			if letter := letters.Transactions()[0]; !errors.As(l.err("a"), &failed) || failed.Category != classify.CategoryBusiness ||
				letter.Metadata(pipeline.MetaCategory) != "business" {
				t.Errorf("%s: %v, dead letter: %v", failing, failed, letter.AllMetadata())
			}
		}
		var l ledger
		p := producerPolicy(1, 1)
		p.Steps.Success.Retry.ClassifierName = "judge"
		s := &script{handlers: "s", success: map[string][]act{"a": {{err: errDown}}}}
		_, _ = pipeline.NewProducer(&pipeline.MemorySink{}, s.task(), p, executor, l.option()).Run(bg, pipeline.Values(transactions("a")...))
		var failed *pipeline.TransactionError
		if !errors.As(l.err("a"), &failed) || failed.Category != classify.CategorySystem {
			t.Errorf("a producer's success step: %v", failed)
		}
	})
}
