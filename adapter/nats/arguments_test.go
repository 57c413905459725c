package tenetnats_test

import (
	"testing"

	tenetnats "github.com/tenetdev/tenet/adapter/nats"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		`tenetnats: New: the connection is nil`:  func() error { _, err := tenetnats.New(nil, nil); return err },
		`tenetnats: publish: the message is nil`: func() error { return new(tenetnats.Client).Publish(t.Context(), nil) },
		`tenetnats: Subscribe: the handler is nil`: func() error {
			_, err := new(tenetnats.Client).Subscribe(t.Context(), tenetnats.Subscription{Subject: "s"})
			return err
		},
		`tenetnats: Bucket: the bucket is nil`: func() error { new(tenetnats.Client).Bucket(nil); return nil },
	})
}
