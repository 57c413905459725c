package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/store/sqlite"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tenet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	db, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Options{Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()

	receipt, err := job.NewClient(db.Jobs()).Enqueue(ctx, job.Request{Type: "greet", Payload: "world"})
	fmt.Println(receipt.Durability, err)

	claimed, err := db.Jobs().Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "default", Free: 10}}, Lease: time.Minute})
	fmt.Println(len(claimed), string(claimed[0].Payload), err)
	// Output:
	// group_committed <nil>
	// 1 "world" <nil>
}

func ExampleDB_BeginTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tenet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "app.db"), sqlite.Options{Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()

	tx, err := db.BeginTx(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback() }()
	inserts, err := job.NewClient(db.Jobs()).Inserts([]job.Request{{Type: "email:send", Payload: 7}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = tx.ExecContext(ctx, `CREATE TABLE customer (name TEXT); INSERT INTO customer VALUES ('Ann')`)
	if err != nil {
		fmt.Println(err)
		return
	}
	receipts, err := db.Jobs().EnqueueTx(ctx, tx, inserts)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(receipts[0].Durability, tx.Commit()) // the customer and the job, or neither
	// Output: transaction <nil>
}
