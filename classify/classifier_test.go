package classify_test

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

func TestC2DefaultRetriesEveryError(t *testing.T) {
	want := classify.Outcome{Kind: classify.Success, Reason: policy.ReasonSuccess}
	if diff := cmp.Diff(want, classify.Default("a value", nil)); diff != "" {
		t.Error(diff)
	}
	want = classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: policy.ReasonError}
	if diff := cmp.Diff(want, classify.Default(nil, errBase)); diff != "" {
		t.Error(diff)
	}
}

type response struct{ status int }

func (r *response) Read([]byte) (int, error) { return 0, io.EOF }

// seen returns an outcome that shows that the classifier was called.
func seen[T any](*testing.T) classify.Classifier {
	return classify.Typed(func(_ T, err error) classify.Outcome {
		if err != errBase {
			return classify.Outcome{Kind: classify.Abort}
		}
		return classify.Outcome{Kind: classify.Retryable, Reason: policy.ReasonHTTPStatus}
	})
}

func TestC5ClassifierOfATypeIsAsked(t *testing.T) {
	cases := map[string]struct {
		classifier classify.Classifier
		value      any
	}{
		"its own type":                     {seen[*response](t), &response{503}},
		"nil pointer of its type":          {seen[*response](t), (*response)(nil)},
		"zero value":                       {seen[int](t), 0},
		"value behind an interface":        {seen[io.Reader](t), &response{}},
		"nil of an interface":              {seen[io.Reader](t), nil},
		"any takes everything":             {seen[any](t), 7},
		"any takes nil":                    {seen[any](t), nil},
		"nil pointer inside interface":     {seen[io.Reader](t), (*response)(nil)},
		"a value of another type argument": {seen[error](t), errBase},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.classifier.Classify(c.value, errBase)
			want := classify.Outcome{Kind: classify.Retryable, Reason: policy.ReasonHTTPStatus}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	double := classify.Typed(func(v int, _ error) classify.Outcome {
		return classify.Outcome{Attributes: map[string]string{"detail": strings.Repeat("x", v)}}
	})
	if got := double.Classify(3, nil).Attributes["detail"]; got != "xxx" {
		t.Errorf("the classifier saw another value: %q", got)
	}
}

func TestC5ForeignTypeIsNeverRetried(t *testing.T) {
	cases := map[string]struct {
		classifier    classify.Classifier
		value         any
		expected, got string
	}{
		"another type":            {seen[*response](t), "text", "*classify_test.response", "string"},
		"value for a pointer":     {seen[*response](t), response{}, "*classify_test.response", "classify_test.response"},
		"operation without value": {seen[*response](t), nil, "*classify_test.response", "<nil>"},
		"no value for an int":     {seen[int](t), nil, "int", "<nil>"},
		"int64 for an int":        {seen[int](t), int64(1), "int", "int64"},
		"not of the interface":    {seen[io.Reader](t), 7, "io.Reader", "int"},
	}
	for name, c := range cases {
		for _, err := range []error{nil, errBase} {
			t.Run(name, func(t *testing.T) {
				want := classify.Outcome{
					Kind: classify.NonRetryable, Category: classify.CategorySystem, Reason: policy.ReasonClassifierTypeMismatch,
					Attributes: map[string]string{"expected_type": c.expected, "got_type": c.got},
				}
				if diff := cmp.Diff(want, c.classifier.Classify(c.value, err)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}
