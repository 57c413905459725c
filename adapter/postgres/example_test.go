package postgres_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
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

func ExampleJobs_CompleteTx() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{Schema: "example_complete"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if _, err := db.Migrate(ctx, postgres.Up, false); err != nil { // or `tenet migrate up`
		fmt.Println(err)
		return
	}
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL")) // the application's own pool
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS payment (invoice integer)`); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := job.NewClient(db.Jobs()).Enqueue(ctx, job.Request{Type: "invoice:pay", Payload: 7}); err != nil {
		fmt.Println(err)
		return
	}

	w := job.NewWorker(db.Jobs())
	job.Handle(w, "invoice:pay", func(ctx context.Context, j job.Job[int]) error {
		defer stop() // the example ends with its only job
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO payment VALUES ($1)`, j.Payload); err != nil {
				return err
			}
			return db.Jobs().CompleteTx(ctx, tx, j.Lease())
		}) // the payment and the job's completion, or neither
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
