package amplify_test

import (
	"testing"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		"amplify: New: the graph is nil": func() error { _, err := amplify.New(nil, nil, nil); return err },
	})
}
