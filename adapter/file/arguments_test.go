package file_test

import (
	"testing"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		`file: Open: the path is empty`:          func() error { _, err := file.Open("", file.Options{}); return err },
		`file: Create: the path is empty`:        func() error { _, err := file.Create("", file.SinkOptions{}); return err },
		`file: Dispatch: the transaction is nil`: func() error { return new(file.Sink).Dispatch(t.Context(), nil) },
	})
}
