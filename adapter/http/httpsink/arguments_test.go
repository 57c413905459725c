package httpsink_test

import (
	"testing"

	"github.com/tenetdev/tenet/adapter/http/httpsink"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		`httpsink: url: must be an absolute http or https URL`: func() error { _, err := httpsink.New("", httpsink.Options{}); return err },
		`httpsink: Dispatch: the transaction is nil`:           func() error { return new(httpsink.Sink).Dispatch(t.Context(), nil) },
	})
}
