package postgres_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/store/postgres"
)

func ExampleOpen() {
	ctx := context.Background()
	db, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{Schema: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if _, err := db.Migrate(ctx, postgres.Up, false); err != nil { // or `tenet migrate up`
		fmt.Println(err)
		return
	}

	client := job.NewClient(db.Jobs())
	receipt, err := client.Enqueue(ctx, job.Request{Type: "email:send", Queue: "emails", Payload: map[string]string{"to": "ada@example.com"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(receipt.Durability)

	// What a job.Worker does:
	claimed, err := db.Jobs().Claim(ctx, job.Claim{Worker: "example", Queues: []job.Slots{{Queue: "emails", Free: 1}}, Lease: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	errs := db.Jobs().Settle(ctx, []job.Settlement{{Ref: claimed[0].Ref(), Kind: job.KindComplete}})
	fmt.Println(string(claimed[0].Payload), errs == nil)
	// Output:
	// fsynced
	// {"to":"ada@example.com"} true
}
