package prove_test

import (
	"testing"

	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/prove"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		"prove: Document: the document is nil": func() error { _, err := prove.Document(nil, nil); return err },
	})
}
