package classify_test

import (
	"testing"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		"classify: Custom: match is nil":       func() error { classify.Custom("a", "", nil); return nil },
		"classify: Typed: the function is nil": func() error { classify.Typed[int](nil); return nil },
	})
}
