package near

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	known := []string{"max_attempts", "backoff", "backoff_cap", "p95", "x"}
	for name, want := range map[string]string{
		"max_attemps": "max_attempts", "MAX_ATTEMPTS": "max_attempts", "bakcoff": "backoff", "backoffcap": "backoff_cap", "back": "backoff",
		"p99": "p95", "something": "", "y": "", "": "", strings.Repeat("b", 300): "",
	} {
		if got := Name(name, known); got != want {
			t.Errorf("nearest to %q: %q, want %q", name, got, want)
		}
	}
}
