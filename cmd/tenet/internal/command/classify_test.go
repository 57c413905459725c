package command

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

func TestParseCodes(t *testing.T) {
	for _, test := range []struct {
		list    string
		in, out []int
	}{
		{"", []int{1, 2, 255}, []int{0}},
		{"  ", []int{1}, []int{0}},
		{"1,75,100-110", []int{1, 75, 100, 105, 110}, []int{0, 2, 74, 76, 99, 111}},
		{" 7 , 9 - 9 ", []int{7, 9}, []int{8, 10}},
		{"255", []int{255}, []int{254}},
	} {
		codes, err := ParseCodes(test.list)
		if err != nil {
			t.Errorf("%q: %v", test.list, err)
		}
		for _, code := range test.in {
			if !codes.Has(code) {
				t.Errorf("%q does not hold %d", test.list, code)
			}
		}
		for _, code := range test.out {
			if codes.Has(code) {
				t.Errorf("%q holds %d", test.list, code)
			}
		}
	}
}

func TestParseCodesRejectsInvalidLists(t *testing.T) {
	for _, list := range []string{"0", "256", "-1", "x", "1,,2", "5-3", "1-", "1-x", "0-3", "250-256"} {
		if _, err := ParseCodes(list); err == nil {
			t.Errorf("%q was accepted", list)
		}
	}
}

func TestClassifier(t *testing.T) {
	some, err := ParseCodes("75")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		codes    Codes
		err      error
		kind     classify.Kind
		category classify.Category
		reason   policy.Reason
	}{
		"success":                {Codes{}, nil, classify.Success, classify.CategoryNone, policy.ReasonSuccess},
		"any code":               {Codes{}, &ExitError{Code: 9}, classify.Retryable, classify.CategorySystem, policy.ReasonExitCode},
		"a listed code":          {some, &ExitError{Code: 75}, classify.Retryable, classify.CategorySystem, policy.ReasonExitCode},
		"another code":           {some, &ExitError{Code: 9}, classify.NonRetryable, classify.CategoryBusiness, policy.ReasonExitCode},
		"a signal, not listed":   {some, &ExitError{Code: 137, Signal: syscall.SIGKILL}, classify.NonRetryable, classify.CategoryBusiness, policy.ReasonExitCode},
		"a timeout":              {some, &TimeoutError{After: time.Second}, classify.Retryable, classify.CategoryTimeout, policy.ReasonAttemptTimeout},
		"another error, wrapped": {some, errors.New("pipe broke"), classify.Retryable, classify.CategorySystem, policy.ReasonError},
	} {
		o := Classifier(test.codes).Classify(nil, test.err)
		if o.Kind != test.kind || o.Category != test.category || o.Reason != test.reason {
			t.Errorf("%s: got %v, %v, %v", name, o.Kind, o.Category, o.Reason)
		}
	}
}

func TestClassExitMatchesExitErrorsOnly(t *testing.T) {
	family := Classes()
	if got := family.Of(classify.Permanent(&ExitError{Code: 1})); got != policy.ClassExit {
		t.Errorf("got %q", got)
	}
	if got := family.Of(errors.New("other")); got != "" {
		t.Errorf("got %q", got)
	}
}
