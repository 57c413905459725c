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

func TestL5DeliveriesAreNotLostWhenAClassifierRetriesTheFetch(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		judged := 0
		again := classify.Func(func(_ any, err error) classify.Outcome {
			if judged++; judged == 1 {
				return classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem}
			}
			return classify.Default(nil, err)
		})
		p := consumerPolicy(2, 2)
		p.Steps.Fetch.Retry.MaxAttempts, p.Steps.Fetch.Retry.ClassifierName = 2, "again"
		source := newScripted(answer{ids: []string{"a"}}, answer{ids: []string{"b"}}, answer{err: pipeline.ErrEnd})
		var l ledger
		summary, err := pipeline.NewConsumer(source, (&script{}).task(), p, l.option(), pipeline.WithExecutorOptions(retry.ExecutorOptions{
			Classifiers: map[string]classify.Classifier{"again": again},
		})).Run(bg)
		if err != nil || summary.Success != 2 || summary.Retries != 1 || len(l.of("a")) != 1 || len(l.of("b")) != 1 {
			t.Error(summary, err)
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
