package policyfile_test

import (
	"testing"

	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/policyfile"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		"policyfile: Diff: a document is nil": func() error { _, err := policyfile.Diff(&policyfile.Document{}, nil); return err },
	})
}
