package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

// A job is stored and leased, and its result is written with the lease's fencing token.
func Example() {
	ctx := context.Background()
	db := memory.Open()
	defer db.Close()
	store := db.Jobs()

	receipts, err := store.Enqueue(ctx, []job.Insert{{ID: "01990000-0000-7000-8000-000000000001", Type: "email:send", Queue: "mail"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stored:", receipts[0].Durability)

	claimed, err := store.Claim(ctx, job.Claim{Worker: "w1", Queues: []job.Slots{{Queue: "mail", Free: 1}}, Lease: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	lease := claimed[0].Ref()
	fmt.Println("written:", store.Settle(ctx, []job.Settlement{{Ref: lease, Kind: job.KindComplete}}) == nil)
	fmt.Println("second result:", store.Settle(ctx, []job.Settlement{{Ref: lease, Kind: job.KindDead}})[0])
	// Output:
	// stored: memory
	// written: true
	// second result: job: not running
}
