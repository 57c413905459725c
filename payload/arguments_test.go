package payload_test

import (
	"testing"

	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/payload"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		"payload: ReadKeys: the reader is nil": func() error { _, err := payload.ReadKeys(nil); return err },
	})
}
