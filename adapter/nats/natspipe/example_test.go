package natspipe_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

func Example() {
	ctx := context.Background()
	folder, _ := os.MkdirTemp("", "nats")
	defer os.RemoveAll(folder)
	broker, _ := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: folder, NoLog: true, NoSigs: true})
	broker.Start()
	defer broker.WaitForShutdown()
	defer broker.Shutdown()
	conn, err := natsgo.Connect(broker.ClientURL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	js, _ := jetstream.New(conn)
	_, _ = js.CreateStream(ctx, jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders.new"}})

	o := natspipe.Options{Stream: "orders", Consumer: "shop"}
	sink, err := natspipe.OpenSink(ctx, broker.ClientURL(), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sink.Close()
	_ = sink.Dispatch(ctx, pipeline.NewTransaction("order-1", []byte(`{"amount":12}`)))

	source, err := natspipe.OpenSource(ctx, broker.ClientURL(), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	task := pipeline.Handle(func(_ context.Context, t *pipeline.Transaction) error {
		fmt.Println(t.ID(), string(t.Payload()))
		return nil
	})
	summary, err := pipeline.NewConsumer(source, task, policy.Consumer{}).Run(ctx)
	fmt.Println(summary.Success, err)
	// Output:
	// order-1 {"amount":12}
	// 1 <nil>
}
