package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/server"
)

// A program of one's own serves its stores.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "tenet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	db, err := sqlite.Open(ctx, filepath.Join(folder, "store.db"), sqlite.Options{Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	log, err := audit.Open(ctx, db.Audit(), audit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close(ctx)
	s, err := server.New(ctx, server.Options{
		Stores: server.Stores{Jobs: db.Jobs(), Records: db.Idempotency(), Audit: db.Audit(), Policies: memory.Open().Policies()}, Log: log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	site := httptest.NewServer(s.Handler())
	defer site.Close()
	answer, err := http.Get(site.URL + "/v1/stats")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.StatusCode, string(body))
	// Output: 200 {"queues":{}}
}
