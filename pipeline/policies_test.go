package pipeline_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// byHand puts an unchecked document in force.
func (l *live) byHand(name string, c policy.Consumer) {
	l.set.Store(policy.NewSet(policy.SetConfig{Consumers: map[string]policy.Consumer{name: c}}))
}

func TestP6AnUncheckedLoopIsCheckedWhenItTakesEffect(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		bad := policy.Consumer{}
		bad.Loop.Batch.Size = -1
		set := policy.NewSet(policy.SetConfig{Consumers: map[string]policy.Consumer{"orders": bad}})
		var log bytes.Buffer
		s := &script{process: map[string][]act{"*": ok(0)}}
		source := newScripted(answer{ids: []string{"a"}}, answer{ids: []string{"b"}}, answer{})
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 3), pipeline.WithName("orders"), pipeline.WithProvider(set),
			pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg)
		if err != nil || summary.Success != 2 {
			t.Error(summary, err)
		}
		if diff := cmp.Diff([]int{3, 3, 3}, asked(source)); diff != "" {
			t.Errorf("the policy that the consumer was made with stays: %s", diff)
		}
		if text := log.String(); strings.Count(text, "cannot be used") != 1 || !strings.Contains(text, "loop.batch.size") || !strings.Contains(text, "pipeline=orders") {
			t.Errorf("logged: %s", text)
		}
	})
}

func TestP6ABadChangeIsRejectedAndTheLastOneStays(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		provider := &live{}
		first := consumerPolicy(1, 2)
		first.Loop.Limit = 6
		provider.byHand("orders", first)
		var log bytes.Buffer
		s := &script{process: map[string][]act{"*": ok(time.Second)}}
		source := newScripted(answer{ids: []string{"a", "b"}}, answer{ids: []string{"c", "d"}}, answer{ids: []string{"e"}})
		time.AfterFunc(500*time.Millisecond, func() {
			bad := first
			bad.Loop.Batch.Size = -1
			provider.byHand("orders", bad)
		})
		time.AfterFunc(3500*time.Millisecond, func() {
			good := first
			good.Loop.Limit = 5
			provider.byHand("orders", good)
		})
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 1), pipeline.WithName("orders"), pipeline.WithProvider(provider),
			pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg)
		if err != nil || summary.Success != 5 {
			t.Error(summary, err)
		}
		if diff := cmp.Diff([]int{2, 2, 1}, asked(source)); diff != "" {
			t.Error(diff)
		}
		if text := log.String(); strings.Count(text, "cannot be used") != 1 {
			t.Errorf("logged: %s", text)
		}
	})
}

func TestP6AProducersUncheckedLoopIsChecked(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		bad := policy.Producer{}
		bad.Loop.Concurrency.Value = -1
		set := policy.NewSet(policy.SetConfig{Producers: map[string]policy.Producer{"orders": bad}})
		var log bytes.Buffer
		var sink pipeline.MemorySink
		summary, err := pipeline.NewProducer(&sink, pipeline.Raw{}, policy.Producer{}, pipeline.WithName("orders"), pipeline.WithProvider(set),
			pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg, pipeline.Values(transactions("a")...))
		if err != nil || summary.Success != 1 || !strings.Contains(log.String(), "loop.concurrency.value") {
			t.Error(summary, err, log.String())
		}
	})
}

func TestL6AnEmptyQueueWithoutValuesWaits(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		byHand := policy.Consumer{}
		byHand.Loop.Streaming = true
		byHand.Loop.Timeout = 10 * time.Second
		byHand.Loop.Batch.Size = 1
		provider := &live{}
		provider.byHand("orders", byHand)
		source := newScripted(answer{}, answer{}, answer{}, answer{}, answer{}, answer{})
		began := time.Now()
		_, err := pipeline.NewConsumer(source, (&script{}).task(), byHand, pipeline.WithName("orders"), pipeline.WithProvider(provider), quiet).Run(bg)
		if n := len(asked(source)); err == nil || n < 3 || n > 5 || time.Since(began) != 10*time.Second { // after 0, 1, 3 and 7 s
			t.Errorf("%d fetches in %v: %v", n, time.Since(began), err)
		}
	})
}

func TestP6AProducerThatADocumentDoesNotNameKeepsItsPolicy(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p := producerPolicy(1, 2)
		p.Loop.Limit = 3
		set := policy.NewSet(policy.SetConfig{Producers: map[string]policy.Producer{"invoices": {}}})
		var sink pipeline.MemorySink
		summary, err := pipeline.NewProducer(&sink, pipeline.Raw{}, p, pipeline.WithName("orders"), pipeline.WithProvider(set), quiet).
			Run(bg, pipeline.Values(transactions(many(9)...)...))
		if err != nil || summary.Success != 3 {
			t.Error(summary, err)
		}
	})
}

func TestL7ASurplusWorkerLeavesTheIDThatItFreed(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		provider := &live{}
		provider.change(t, consumerPolicy(3, 4))
		s := &script{process: map[string][]act{"a": ok(10 * time.Second), "b": ok(20 * time.Second), "c": ok(5 * time.Second)}}
		source := newScripted(answer{ids: []string{"a", "b", "c", "a"}}, answer{err: pipeline.ErrEnd})
		time.AfterFunc(time.Second, func() { provider.change(t, consumerPolicy(1, 4)) }) // in force after c has ended
		summary, err := pipeline.NewConsumer(source, s.task(), policy.Consumer{}, pipeline.WithName("orders"), pipeline.WithProvider(provider)).Run(bg)
		if err != nil || summary.Success != 4 {
			t.Error(summary, err)
		}
		if last := s.log[len(s.log)-1]; last != "20s process a" {
			t.Errorf("last %q; want a on the worker that b has left", last)
		}
	})
}

// TestL7AHigherConcurrencyIsReadWhileNoWorkerIsFree raises it for tasks of this run, and for one that an earlier run abandoned.
func TestL7AHigherConcurrencyIsReadWhileNoWorkerIsFree(t *testing.T) {
	for name, first := range map[string]time.Duration{"in a run": 0, "in a second run": time.Second} {
		bubble(t, name, func(t *testing.T) {
			provider := &live{}
			provider.change(t, consumerPolicy(1, 4))
			s := &script{process: map[string][]act{"slow": {{takes: time.Hour, deaf: true}}}}
			source := newScripted(answer{ids: []string{"slow"}}, answer{ids: many(4)}, answer{err: pipeline.ErrEnd})
			consumer := pipeline.NewConsumer(source, s.task(), policy.Consumer{}, pipeline.WithName("orders"), pipeline.WithProvider(provider),
				pipeline.WithGrace(time.Second), quiet)
			if first > 0 {
				ctx, cancel := context.WithTimeout(bg, first)
				defer cancel()
				if summary, _ := consumer.Run(ctx); summary.Abandoned != 1 {
					t.Fatal(summary)
				}
			}
			time.AfterFunc(10*time.Second, func() { provider.change(t, consumerPolicy(2, 4)) })
			time.AfterFunc(30*time.Second, func() {
				if got := consumer.Progress().Summary.Success; got != 4 {
					t.Errorf("%d transactions have succeeded after the change", got)
				}
			})
			_, _ = consumer.Run(bg)
			time.Sleep(time.Hour)
		})
	}
}
