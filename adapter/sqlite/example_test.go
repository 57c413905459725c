package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
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
	_, err = tx.ExecContext(ctx, `CREATE TABLE customer (name TEXT); INSERT INTO customer VALUES ('Ann')`)
	if err != nil {
		fmt.Println(err)
		return
	}
	receipts, err := db.Jobs().EnqueueTx(ctx, tx, job.Define[string]("email:send").Request("ann@example.com"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(receipts[0].Durability, tx.Commit()) // the customer and the job, or neither
	// Output: transaction <nil>
}

func ExampleJobs_CompleteTx() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
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
	if _, err := job.NewClient(db.Jobs()).Enqueue(ctx, job.Request{Type: "invoice:pay", Payload: 7}); err != nil {
		fmt.Println(err)
		return
	}

	w := job.NewWorker(db.Jobs())
	job.Handle(w, "invoice:pay", func(ctx context.Context, j job.Job[int]) error {
		defer stop() // the example ends with its only job
		tx, err := db.BeginTx(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS payment (invoice INTEGER)`); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO payment VALUES (?)`, j.Payload); err != nil {
			return err
		}
		if err := db.Jobs().CompleteTx(ctx, tx, j.Lease()); err != nil {
			return err
		}
		err = tx.Commit() // the payment and the job's completion, or neither
		fmt.Println("paid", j.Payload, err)
		return err
	})
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	list, err := db.Jobs().List(context.Background(), job.Filter{}, "", 10)
	fmt.Println(list[0].State, err)
	// Output:
	// paid 7 <nil>
	// completed <nil>
}
