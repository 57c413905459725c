package keyring_test

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/server/internal/keyring"
)

func unrecorded(_, _ ed25519.PublicKey) error { return nil }

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
		if newest, err = keyring.Rotate(t.Context(), store, unrecorded); err != nil {
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

func TestS6AKeyIsNotRotatedBeforeThatIsOnRecord(t *testing.T) {
	store := memory.Open().Policies()
	first, err := keyring.Load(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("the audit log is full")
	if _, err := keyring.Rotate(t.Context(), store, func(_, _ ed25519.PublicKey) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	if now, err := keyring.Load(t.Context(), store); err != nil || !now.Public().Equal(first.Public()) {
		t.Errorf("rotated: %v", err)
	}
}
