package sharing_test

import (
	"testing"

	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/sharing"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		"sharing: NewHub: the store is nil": func() error { sharing.NewHub(nil); return nil },
		"sharing: NewLot: the hub is nil":   func() error { sharing.NewLot(nil, "a", sharing.Terms{}); return nil },
	})
}
