package classify

import (
	"fmt"
	"reflect"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// Classifier gives meaning to the results of one kind of operation. It sees what the operation returned: its value (nil
// for operations without one) and its error. Implementations are pure and safe for concurrent use.
type Classifier interface {
	Classify(value any, err error) Outcome
}

// Func adapts a function to a Classifier.
type Func func(value any, err error) Outcome

// Classify calls f.
func (f Func) Classify(value any, err error) Outcome { return f(value, err) }

// Default retries every error. It is what a policy without a classifier gets.
func Default(_ any, err error) Outcome {
	if err == nil {
		return Outcome{Kind: Success, Reason: policy.ReasonSuccess}
	}
	return Outcome{Kind: Retryable, Category: CategorySystem, Reason: policy.ReasonError}
}

// Typed makes a Classifier of a function that knows the operation's type of value. A value of any other type means that
// the policy names the wrong classifier: the outcome is non-retryable, reason classifier_type_mismatch, with the
// attributes expected_type and got_type. A nil function panics.
func Typed[T any](f func(value T, err error) Outcome) Classifier {
	argument.Need(f != nil, "classify: Typed: the function")
	expected := reflect.TypeFor[T]()
	return Func(func(value any, err error) Outcome {
		v, ok := value.(T)
		if ok || value == nil && expected.Kind() == reflect.Interface { // a nil interface has lost its type on the way
			return f(v, err)
		}
		return Outcome{
			Kind: NonRetryable, Category: CategorySystem, Reason: policy.ReasonClassifierTypeMismatch,
			Attributes: map[string]string{
				"expected_type": expected.String(),
				"got_type":      fmt.Sprintf("%T", value),
			},
		}
	})
}
