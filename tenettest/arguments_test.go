package tenettest_test

import (
	"testing"

	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/tenettest"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		"tenettest: NewJobs: the test is nil": func() error { tenettest.NewJobs(nil); return nil },
	})
}
