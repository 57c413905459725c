package retry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tenetdev/tenet"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/hedge"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	retry.ResetGlobal()
	defer retry.ResetGlobal()
	e, none := executor(t, exact(1)), (*retry.Executor)(nil)
	ok := retry.Operation(func(context.Context) error { return nil })
	value := retry.OperationValue[int](func(context.Context) (int, error) { return 0, nil })
	var missing context.Context
	step := retry.Step{Key: key}
	for argument, calls := range map[string][]func(){
		"the operation": {
			func() { _ = e.Do(bg, key, nil) },
			func() { _, _ = e.DoWithTimeline(bg, key, nil) },
			func() { _, _ = retry.DoValue[int](bg, e, key, nil) },
			func() { _, _, _ = retry.DoValueWithTimeline[int](bg, e, key, nil) },
			func() { _ = e.DoStep(bg, step, nil) },
			func() { _ = e.Once(bg, retry.Work{Key: key}, nil) },
			func() { _ = tenet.Do(bg, key, nil) },
			func() { _, _ = tenet.DoValue[int](bg, key, nil) },
			func() { _, _ = tenet.DoWithTimeline(bg, key, nil) },
			func() { _, _, _ = tenet.DoValueWithTimeline[int](bg, key, nil) },
		},
		"the context": {
			func() { _ = e.Do(missing, key, ok) },
			func() { _, _ = e.DoWithTimeline(missing, key, ok) },
			func() { _, _ = retry.DoValue(missing, e, key, value) },
			func() { _, _, _ = retry.DoValueWithTimeline(missing, e, key, value) },
			func() { _ = e.DoStep(missing, step, ok) },
			func() { _ = e.Once(missing, retry.Work{Key: key}, ok) },
			func() { _ = e.Policy(missing, key) },
			func() { _ = tenet.Do(missing, key, ok) },
			func() { _ = e.Wait(missing) },
		},
		"the executor": {
			func() { _ = none.Do(bg, key, ok) },
			func() { _, _ = none.DoWithTimeline(bg, key, ok) },
			func() { _, _ = retry.DoValue(bg, none, key, value) },
			func() { _, _, _ = retry.DoValueWithTimeline(bg, none, key, value) },
			func() { _ = none.DoStep(bg, step, ok) },
			func() { _ = none.Once(bg, retry.Work{Key: key}, ok) },
			func() { _ = none.Policy(bg, key) },
			func() { _ = none.Wait(bg) },
		},
		"a call option":            {func() { _ = e.Do(bg, key, ok, nil) }},
		"WithPolicy: the function": {func() { retry.WithPolicy(nil) }},
		`NewExecutor: the classifier "c"`: {func() {
			retry.NewExecutor(retry.ExecutorOptions{Classifiers: map[string]classify.Classifier{"c": nil}})
		}},
		`NewExecutor: the trigger "t"`: {func() { retry.NewExecutor(retry.ExecutorOptions{Triggers: map[string]hedge.Trigger{"t": nil}}) }},
		`NewExecutor: the function of the class family ["quota"]`: {func() {
			retry.NewExecutor(retry.ExecutorOptions{Classes: []classify.Family{{Names: []policy.Class{"quota"}}}})
		}},
	} {
		for i, call := range calls {
			func() {
				defer func() {
					if text, _ := recover().(string); text != "retry: "+argument+" is nil" || strings.Contains(text, "0x") {
						t.Errorf("%s, call %d: panicked with %q", argument, i, text)
					}
				}()
				call()
			}()
		}
	}
}

func TestO3AZeroExecutorSaysHowToCreateOne(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); text != "retry: the executor is a zero Executor: create it with New or NewExecutor" {
			t.Errorf("panicked with %q", text)
		}
	}()
	_ = new(retry.Executor).Do(bg, key, func(context.Context) error { return nil })
	t.Error("the call returned")
}
