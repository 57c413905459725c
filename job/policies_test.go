package job_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// document parses a policy document.
func document(t *testing.T, text string) *policy.Set {
	t.Helper()
	d, err := policyfile.Parse("test.yaml", []byte(text), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Set
}

// waits runs a job of a type until it is dead and returns the waits between its attempts.
func waits(t *testing.T, jobType string, own int, options ...job.WorkerOption) (list []time.Duration) {
	t.Helper()
	b := newBench(t)
	handler, _ := failing(errDown)
	w := job.NewWorker(b.store, append([]job.WorkerOption{quiet}, options...)...)
	w.HandleRaw(jobType, handler)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	id := b.enqueue(job.Request{Type: jobType, MaxAttempts: own})
	time.Sleep(5 * time.Minute)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	r, history := b.get(id)
	if r.State != job.Dead {
		t.Errorf("the job is %s", r.State)
	}
	for _, a := range history {
		list = append(list, a.Delay.Round(time.Millisecond))
	}
	return list
}

// unversioned hides the version of a document.
type unversioned struct{ set *policy.Set }

func (u unversioned) Policy(ctx context.Context, k policy.Key) (*policy.Policy, error) {
	return u.set.Policy(ctx, k)
}

func TestP12APolicyInCodeIsBelowTheDocumentsEntriesAndAboveItsDefaults(t *testing.T) {
	const (
		text = `
version: 1
defaults: {jobs: {retry: {max_attempts: 7, backoff: 9s, backoff_cap: 9s, jitter: none}}}
queues: {default: {concurrency: 5}}
jobs:
  both: {retry: {max_attempts: 3, backoff: 4s, backoff_cap: 4s, jitter: none}}
  attempts: {retry: {max_attempts: 3}}
  delays: {retry: {backoff: 4s, backoff_cap: 4s, jitter: none}}
  other: {timeout: 30s}
`
		plain = "version: 1\njobs: {both: {retry: {max_attempts: 3, backoff: 4s, backoff_cap: 4s, jitter: none}}}\n"
		code  = 2 * time.Second
	)
	of := func(n int, d time.Duration) []time.Duration { // n attempts, d apart
		return append(slices.Repeat([]time.Duration{d}, n-1), 0)
	}
	for name, c := range map[string]struct {
		document, jobType string
		want              []time.Duration
	}{
		"an entry for both":                      {text, "both", of(3, 4*time.Second)},
		"an entry for attempts":                  {text, "attempts", of(3, code)},
		"an entry for delays":                    {text, "delays", of(4, 4*time.Second)},
		"an entry for neither":                   {text, "other", of(4, code)},
		"no entry but defaults":                  {text, "unnamed", of(4, code)},
		"no entry":                               {plain, "unnamed", of(4, code)},
		"an entry in a document without default": {plain, "both", of(3, 4*time.Second)},
	} {
		for kind, p := range map[string]job.RetryPolicy{
			"data":      job.NewExponentialBackoff(policy.Retry{MaxAttempts: 4, InitialBackoff: code, MaxBackoff: code, BackoffMultiplier: 1, Jitter: policy.JitterNone}),
			"interface": inCode{code, 4},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				set := document(t, c.document)
				for _, provider := range []policy.Provider{set, unversioned{set}} {
					if _, whole := provider.(policy.SetProvider); !whole && c.document == text {
						continue // the document's defaults are unknown
					}
					synctest.Test(t, func(t *testing.T) {
						got := waits(t, c.jobType, 0, job.WithProvider(provider), job.WithRetryPolicy(p))
						if diff := cmp.Diff(c.want, got); diff != "" {
							t.Error(diff)
						}
					})
				}
			})
		}
	}
}

func TestP12APolicyInCodeReplacesAFailingProvider(t *testing.T) {
	for kind, p := range map[string]job.RetryPolicy{"data": steady(4), "interface": inCode{time.Second, 4}} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := waits(t, "t", 0, job.WithProvider(absent{}), job.WithRetryPolicy(p))
				if diff := cmp.Diff([]time.Duration{time.Second, time.Second, time.Second, 0}, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestJ3NoRetriesAlsoAppliesWithADocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := document(t, "version: 1\njobs: {t: {retry: {max_attempts: 3}}}\n")
		if got := waits(t, "t", 9, job.WithProvider(set), job.WithRetryPolicy(nil)); len(got) != 1 {
			t.Errorf("%d attempts", len(got))
		}
	})
}

func TestP12APolicyInCodeWithAProviderIsReported(t *testing.T) {
	set := document(t, "version: 1\n")
	for name, c := range map[string]struct {
		options []job.WorkerOption
		want    string
	}{
		"data":          {[]job.WorkerOption{job.WithProvider(set), job.WithRetryPolicy(steady(3))}, "a retry policy in code is set beside a provider"},
		"interface":     {[]job.WorkerOption{job.WithRetryPolicy(inCode{}), job.WithProvider(set)}, "a retry policy in code is set beside a provider"},
		"no retries":    {[]job.WorkerOption{job.WithProvider(set), job.WithRetryPolicy(nil)}, "no job is retried"},
		"only provider": {[]job.WorkerOption{job.WithProvider(set)}, ""},
		"only code":     {[]job.WorkerOption{job.WithRetryPolicy(steady(3))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := job.NewWorker(memory.Open().Jobs(), append(c.options, job.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
				w.HandleRaw("t", func(context.Context, job.Job[[]byte]) error { return nil })
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := w.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if got := log.String(); c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.Count(got, "\n") > 1 {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

// overriding embeds the data policy and overrides its methods.
type overriding struct{ job.ExponentialBackoff }

func (overriding) NextDelay(failed int) time.Duration { return time.Duration(failed) * time.Minute }
func (overriding) MaxAttempts() int                   { return 3 }

func TestJ3APolicyThatEmbedsTheDataPolicyIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := overriding{job.NewExponentialBackoff(policy.Retry{InitialBackoff: time.Second, MaxBackoff: time.Second, BackoffMultiplier: 1, Jitter: policy.JitterNone})}
		got := waits(t, "t", 0, job.WithRetryPolicy(p))
		if diff := cmp.Diff([]time.Duration{time.Minute, 2 * time.Minute, 0}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestJ3ADataPolicyWithoutAMaximumLeavesTheJobsOwn(t *testing.T) {
	p := job.NewExponentialBackoffPolicy(time.Second, time.Second, 1, 0, job.WithMaxAttempts(-1))
	if p.MaxAttempts() > 0 {
		t.Errorf("MaxAttempts %d", p.MaxAttempts())
	}
	set := document(t, "version: 1\n")
	for own, want := range map[int]int{4: 4, 40: 40, 0: 1} {
		for name, options := range map[string][]job.WorkerOption{
			"alone":             {job.WithRetryPolicy(p)},
			"beside a document": {job.WithRetryPolicy(p), job.WithProvider(set)},
		} {
			synctest.Test(t, func(t *testing.T) {
				if got := waits(t, "t", own, options...); len(got) != want {
					t.Errorf("%s, job's own maximum %d: %d attempts, want %d", name, own, len(got), want)
				}
			})
		}
	}
	if n := job.NewExponentialBackoff(policy.Retry{InitialBackoff: time.Second, MaxBackoff: time.Second, BackoffMultiplier: 1, Jitter: policy.JitterNone}).MaxAttempts(); n != 25 {
		t.Errorf("0 attempts are %d", n)
	}
}

func TestJ3ABaseAboveTheCapWaitsTheCap(t *testing.T) {
	p := job.NewExponentialBackoffPolicy(10*time.Second, 5*time.Second, 2, 0, job.WithMaxAttempts(3))
	for failed := 1; failed < 3; failed++ {
		if d := p.NextDelay(failed); d != 5*time.Second {
			t.Errorf("after %d failed attempts the policy says %v, want 5s", failed, d)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		handler, calls := failing(errors.New("x"))
		b := work(t, handler, job.WithRetryPolicy(p))
		id := b.enqueue(job.Request{})
		time.Sleep(time.Minute)
		r, history := b.get(id)
		if r.State != job.Dead || calls.Load() != 3 || len(history) != 3 || history[0].Delay != 5*time.Second || history[1].Delay != 5*time.Second {
			t.Errorf("%s after %d calls, %+v", r.State, calls.Load(), history)
		}
	})
}
