package httpsink_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/tenetdev/tenet/adapter/http/httpsink"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// Two orders are sent to an endpoint that is busy at first.
func Example() {
	busy := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy {
			busy = false
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.Method, r.Header.Get("Idempotency-Key"), string(body))
	}))
	defer server.Close()

	sink, err := httpsink.New(server.URL, httpsink.Options{AllowPrivateNetworks: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sink.Close()
	var p policy.Producer
	p.Steps.Produce.Retry = policy.Retry{MaxAttempts: 3}
	summary, err := pipeline.NewProducer(sink, pipeline.Raw{}, p).Run(context.Background(), pipeline.Values(
		pipeline.NewTransaction("order-1", []byte(`{"amount":12}`)),
		pipeline.NewTransaction("order-2", []byte(`{"amount":7}`)),
	))
	fmt.Println(summary.Success, summary.Retries, err)
	// Output:
	// POST order-1 {"amount":12}
	// POST order-2 {"amount":7}
	// 2 1 <nil>
}
