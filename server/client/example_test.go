package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/client"
)

// A client has the errors of the store behind the server.
func ExampleClient_Jobs() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"type":"urn:tenet:problem:not-found","title":"Not Found","status":404,"detail":"job: not found"}`))
	}))
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = c.Jobs().Get(context.Background(), "0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55")
	fmt.Println(err, errors.Is(err, job.ErrNotFound))
	// Output: job: not found true
}
