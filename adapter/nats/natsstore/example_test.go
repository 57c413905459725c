package natsstore_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/idempotency"
)

// The example uses a server in this process, as a program's tests would.
func Example() {
	dir, err := os.MkdirTemp("", "tenet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		fmt.Println("no server")
		return
	}

	ctx := context.Background()
	db, err := natsstore.Open(ctx, s.ClientURL(), natsstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()

	guard, err := idempotency.NewGuard(db.Idempotency(), idempotency.GuardOptions{Operation: "charge"})
	if err != nil {
		fmt.Println(err)
		return
	}
	charge := func(context.Context) ([]byte, error) {
		fmt.Println("charging")
		return []byte("receipt 7"), nil
	}
	for range 2 {
		receipt, err := guard.Do(ctx, idempotency.Request{Key: "order-42", Fingerprint: "19.99 EUR"}, charge)
		fmt.Println(string(receipt), err)
	}
	// Output:
	// charging
	// receipt 7 <nil>
	// receipt 7 <nil>
}
