package policyfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/policyfile"
)

// TestL1ExamplesOfPipelines reads three valid documents field by field, and three invalid ones.
func TestL1ExamplesOfPipelines(t *testing.T) {
	document, err := policyfile.Parse("valid.yaml", []byte(`version: 1
consumers:
  batch:
    loop: {batch: {size: 100}, concurrency: {value: 10}, streaming: true}
    steps: {process: {retry: {max_attempts: 3, timeout: 5.0}}}
  poller:
    loop: {streaming: true, empty_queue: {backoff: 1.0, backoff_cap: 60.0}}
producers:
  once: {steps: {produce: {retry: {max_attempts: 1}}}}
`), policyfile.Options{})
	if err != nil || len(document.Warnings) != 0 {
		t.Fatal(err, document.Warnings)
	}
	batch, _ := document.Set.Consumer("batch")
	if l, r := batch.Loop, batch.Steps.Process.Retry; l.Batch.Size != 100 || l.Concurrency.Value != 10 || !l.Streaming || r.MaxAttempts != 3 || r.TimeoutPerAttempt != 5*time.Second {
		t.Errorf("%+v", batch)
	}
	poller, _ := document.Set.Consumer("poller")
	if q := poller.Loop.EmptyQueue; !poller.Loop.Streaming || q.Backoff != time.Second || q.BackoffCap != time.Minute || q.BackoffMultiplier != 2 {
		t.Errorf("%+v", poller)
	}
	once, _ := document.Set.Producer("once")
	if once.Steps.Produce.Retry.MaxAttempts != 1 {
		t.Errorf("%+v", once)
	}
	for text, path := range map[string]string{
		"consumers: {c: {steps: {process: {retry: {max_attempts: 0}}}}}":                     "consumers.c.steps.process.retry.max_attempts",
		"consumers: {c: {loop: {concurrency: {value: -1}}}}":                                 "consumers.c.loop.concurrency.value",
		"producers: {p: {steps: {produce: {retry: {backoff: 1, backoff_multiplier: 0.5}}}}}": "producers.p.steps.produce.retry.backoff_multiplier",
	} {
		_, err := policyfile.Parse("invalid.yaml", []byte("version: 1\n"+text+"\n"), policyfile.Options{})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
