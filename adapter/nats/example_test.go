package tenetnats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	tenetnats "github.com/tenetdev/tenet/adapter/nats"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/retry"
)

func Example() {
	url, stop, err := serve()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	ctx := context.Background()
	executor := retry.NewExecutor(retry.ExecutorOptions{
		Classifiers: map[string]classify.Classifier{tenetnats.ClassifierName: tenetnats.Classifier()},
		Classes:     []classify.Family{tenetnats.Classes()},
	})
	conn, err := tenetnats.Connect(ctx, tenetnats.ConnectOptions{URL: url, Options: []nats.Option{nats.Name("shop")}, Executor: executor})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client, err := tenetnats.New(conn, executor)
	if err != nil {
		fmt.Println(err)
		return
	}

	if _, err := client.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // the second one is a duplicate
		ack, err := client.PublishStream(ctx, &nats.Msg{Subject: "orders.new", Data: []byte("42")}, retry.WithIdempotencyKey("order-42"))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ack.Sequence, ack.Duplicate)
	}

	settings, err := client.CreateBucket(ctx, jetstream.KeyValueConfig{Bucket: "settings"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = settings.Get(ctx, "limit")
	fmt.Println(errors.Is(err, jetstream.ErrKeyNotFound))
	var failure *retry.Error
	fmt.Println(errors.As(err, &failure), failure.Category, failure.Attempts)
	// Output:
	// 1 false
	// 1 true
	// true
	// true RETRY_KV_GET 1
}

// serve starts a server in this process.
func serve() (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "tenet")
	if err != nil {
		return "", nil, err
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true})
	if err != nil {
		return "", nil, err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return "", nil, errors.New("the server did not start")
	}
	return s.ClientURL(), func() {
		s.Shutdown()
		s.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}, nil
}
