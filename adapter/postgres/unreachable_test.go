package postgres_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/adapter/postgres"
)

func TestAnUnreachableServerIsNamedOnce(t *testing.T) {
	_, err := postgres.Open(context.Background(), "postgres://ann:secret@127.0.0.1:1/shop", postgres.Options{})
	const want = "postgres: connect: failed to connect to `user=ann database=shop`: " +
		"127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
