package keyring_test

import (
	"errors"
	"testing"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/server/internal/keyring"
)

func TestS4ServersOfOneStoreShareTheirKeys(t *testing.T) {
	store := memory.Open().Policies()
	first, err := keyring.Load(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	second, err := keyring.Load(t.Context(), store)
	if err != nil || !second.Public().Equal(first.Public()) {
		t.Errorf("%v", err)
	}
}

func TestS4ClientsFollowRotations(t *testing.T) {
	store := memory.Open().Policies()
	first, err := keyring.Load(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	newest := first
	for range 3 {
		if newest, err = keyring.Rotate(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := keyring.Load(t.Context(), store)
	if err != nil || !loaded.Public().Equal(newest.Public()) || loaded.Version == first.Version {
		t.Errorf("%+v, %v", loaded, err)
	}
	e := protocol.Envelope{Document: "shop", Revision: 1, Body: "version: 1\n"}
	loaded.Sign(&e)
	if err := e.Verify(first.Public()); err != nil {
		t.Error(err)
	}
	stranger, err := keyring.Load(t.Context(), memory.Open().Policies())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Verify(stranger.Public()); !errors.Is(err, protocol.ErrUntrusted) {
		t.Errorf("a stranger's key: %v", err)
	}
}
