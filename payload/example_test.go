package payload_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/payload"
	"github.com/tenetdev/tenet/policy"
)

func Example() {
	keys, err := payload.ReadKeys(strings.NewReader("k1 QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	codec := payload.New(payload.Options{Keys: keys, Queue: func(string) policy.Codec { return policy.Codec{Encrypt: true} }})

	store := memory.Open().Jobs()
	defer store.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	receipt, err := job.NewClient(store, job.WithCodec(codec)).Enqueue(ctx, job.Request{Type: "greet", Payload: "Ann"})
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, _, _ := store.Get(ctx, receipt.ID)
	seal, _ := job.ReadSeal(stored.Payload)
	fmt.Println("stored:", seal)

	w := job.NewWorker(store, job.WithWorkerCodec(codec), job.WithLogger(slog.New(slog.DiscardHandler)))
	job.Handle(w, "greet", func(_ context.Context, j job.Job[string]) error {
		fmt.Println("hello,", j.Payload)
		cancel()
		return nil
	})
	_ = w.Run(ctx)
	// Output:
	// stored: encrypted with key k1, 5 bytes
	// hello, Ann
}
