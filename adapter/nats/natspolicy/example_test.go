package natspolicy_test

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natspolicy"
	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/retry"
)

// Calls follow a document in a bucket, if the given server has signed it.
func Example() {
	conn, err := nats.Connect("nats://localhost:4222")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	js, _ := jetstream.New(conn)
	bucket, err := js.KeyValue(context.Background(), "POLICIES")
	if err != nil {
		fmt.Println(err)
		return
	}
	key, _ := protocol.ParseKey("6LVWNVGFTJi8yN6TXZAvV8V5o2PIjRXtmSjFGvWCKRk=")
	store, err := natspolicy.New(bucket, "shop", key)
	if err != nil {
		fmt.Println(err)
		return
	}
	policies := controlplane.NewStored(store, controlplane.StoredOptions{})
	defer policies.Close()
	executor := retry.NewExecutor(retry.ExecutorOptions{Provider: policies})
	_ = executor
}
