package redis_test

import (
	"context"
	"log"

	"github.com/tenetdev/tenet/adapter/redis"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/sharing"
)

// An executor that shares the budgets, breakers and limits of its policies with the other processes on a server.
func Example() {
	db, err := redis.Open("redis://localhost:6379/0", redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	hub := sharing.NewHub(db.Limits())
	defer hub.Close(context.Background())
	executor := retry.NewExecutor(retry.ExecutorOptions{Sharing: hub})
	_ = executor
}
