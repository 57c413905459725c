package file_test

import (
	"testing"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		`file: OpenSource: the path is empty`:    func() error { _, err := file.OpenSource("", file.SourceOptions{}); return err },
		`file: OpenSink: the path is empty`:      func() error { _, err := file.OpenSink("", file.SinkOptions{}); return err },
		`file: Dispatch: the transaction is nil`: func() error { return new(file.Sink).Dispatch(t.Context(), nil) },
	})
}
