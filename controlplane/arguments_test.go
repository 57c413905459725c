package controlplane_test

import (
	"testing"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		`controlplane: NewStored: the store is nil`:                           func() error { controlplane.NewStored(nil, controlplane.StoredOptions{}); return nil },
		`controlplane: NewFile: the path is empty`:                            func() error { _, err := controlplane.NewFile("", controlplane.FileOptions{}); return err },
		`controlplane: URL: not an address; write https://host[:port][/path]`: func() error { _, err := controlplane.NewRemote(controlplane.RemoteOptions{}); return err },
	})
}
