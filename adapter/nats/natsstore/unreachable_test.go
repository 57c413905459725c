package natsstore_test

import (
	"strings"
	"testing"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
)

// TestAnUnreachableServerIsNamed without its password, and the error says only once that it is NATS's.
func TestAnUnreachableServerIsNamed(t *testing.T) {
	_, err := natsstore.Open(t.Context(), "nats://user:secret@127.0.0.1:1", natsstore.Options{})
	if err == nil || strings.Contains(err.Error(), "secret") || err.Error() != "nats: open 127.0.0.1:1: no servers available for connection" {
		t.Errorf("%v", err)
	}
}
