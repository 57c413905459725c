package natstest_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tenetdev/tenet/adapter/nats/natstest"
)

func ExampleStart() {
	_ = func(t *testing.T) {
		server := natstest.Start(t)
		proxy := natstest.Between(t, server)
		conn, err := nats.Connect(proxy.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		proxy.CutOn("Nats-Batch-Commit", false) // the server commits the next batch, but its client does not get the answer
	}
}
