package retry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// reported is an observer that collects reports.
type reported struct{ list []*observe.Report }

func (r *reported) Observe(_ context.Context, e *observe.Event) {
	if e.Type == observe.Reported {
		r.list = append(r.list, e.Report)
	}
}

func named(t *testing.T, p policy.Policy) policy.Provider {
	t.Helper()
	p.Retry.MaxAttempts, p.Retry.InitialBackoff = 3, 1
	set, err := controlplane.NewStatic(map[policy.Key]policy.Policy{{Name: "named"}: p, {Name: "again"}: p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

var errOverQuota = errors.New("quota")

func TestC4RegistrationsOfAClientApplyToExistingPlans(t *testing.T) {
	told := &reported{}
	e := retry.NewExecutor(retry.ExecutorOptions{
		Observer: told, Provider: named(t, policy.Policy{Retry: policy.Retry{RetryOn: []policy.Class{"http_503"}, ClassifierName: "http"}}),
	})
	attempts := func() (n int) {
		_ = e.Do(t.Context(), policy.Key{Name: "named"}, func(context.Context) error { n++; return errOverQuota })
		return n
	}
	if n := attempts(); n != 1 {
		t.Fatalf("%d attempts without a matcher", n)
	}
	_ = e.Do(t.Context(), policy.Key{Name: "again"}, func(context.Context) error { return nil })
	if len(told.list) != 2 {
		t.Fatalf("%d reports, want one of the classes and one of the classifier", len(told.list))
	}
	for _, r := range told.list {
		if r.Reason != policy.ReasonClassNotFound && r.Reason != policy.ReasonClassifierNotFound || !strings.Contains(r.Detail, "http") {
			t.Errorf("%+v", r)
		}
	}
	for range 2 {
		e.Register("http", classify.Func(classify.Default), classify.Custom("http_503", "", classify.Is(errOverQuota)))
	}
	if n := attempts(); n != 3 || len(told.list) != 2 {
		t.Errorf("%d attempts after a client registered its classes, %d reports", n, len(told.list))
	}
}

func TestC4TheExecutorsOptionsWin(t *testing.T) {
	own := classify.Func(func(any, error) classify.Outcome { return classify.Outcome{Kind: classify.NonRetryable} })
	e := retry.NewExecutor(retry.ExecutorOptions{
		Provider:    named(t, policy.Policy{Retry: policy.Retry{ClassifierName: "http"}}),
		Classifiers: map[string]classify.Classifier{"http": own},
	})
	e.Register("http", classify.Func(classify.Default), classify.Custom("http_503", "", classify.Is(errOverQuota)))
	n := 0
	_ = e.Do(t.Context(), policy.Key{Name: "named"}, func(context.Context) error { n++; return errOverQuota })
	if n != 1 {
		t.Errorf("%d attempts: the program's own classifier was replaced", n)
	}
}
