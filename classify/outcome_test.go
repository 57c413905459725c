package classify_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

func TestC1OutcomeSurvivesJSON(t *testing.T) {
	for kind := classify.Success; kind <= classify.Abort; kind++ {
		for category := classify.CategoryNone; category <= classify.CategoryTimeout; category++ {
			want := classify.Outcome{
				Kind: kind, Category: category, Class: policy.ClassEOF, Reason: policy.ReasonError,
				Attributes: map[string]string{"detail": "x"}, Pushback: time.Second,
			}
			text, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			got := classify.Outcome{Kind: 99, Category: 99}
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", text, diff)
			}
		}
	}
}

func TestC1NamesOfKindsAndCategories(t *testing.T) {
	kinds := map[classify.Kind]string{
		classify.Success: "success", classify.Retryable: "retryable", classify.NonRetryable: "non_retryable",
		classify.Abort: "abort", 4: "invalid(4)", 255: "invalid(255)",
	}
	for kind, want := range kinds {
		if got := kind.String(); got != want {
			t.Errorf("kind %d is %q, want %q", kind, got, want)
		}
	}
	categories := map[classify.Category]string{
		classify.CategoryNone: "", classify.CategoryBusiness: "business", classify.CategorySystem: "system",
		classify.CategoryTimeout: "timeout", 4: "invalid(4)",
	}
	for category, want := range categories {
		if got := category.String(); got != want {
			t.Errorf("category %d is %q, want %q", category, got, want)
		}
	}
}

func TestC1UnknownTextChangesNothing(t *testing.T) {
	kind, category := classify.Abort, classify.CategoryTimeout
	for _, text := range []string{"invalid(4)", "SUCCESS", "non-retryable", " abort"} {
		if err := kind.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "unknown value \""+text+"\"") {
			t.Errorf("kind %q: error %v", text, err)
		}
		if err := category.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "unknown value \""+text+"\"") {
			t.Errorf("category %q: error %v", text, err)
		}
	}
	if kind != classify.Abort || category != classify.CategoryTimeout {
		t.Errorf("a refused text was read as %s, %s", kind, category)
	}
}
