package observe_test

import (
	"testing"

	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/observe"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		"observe: NewPerKey: the function is nil": func() error { observe.NewPerKey[int](1, nil); return nil },
	})
}
