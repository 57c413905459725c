package tenethttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func ExampleClient() {
	attempts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if attempts++; attempts < 3 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "hello")
	}))
	defer server.Close()

	req, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := tenethttp.Client{HTTP: server.Client()}
	resp, err := client.Do(context.Background(), req, policy.ParseKey("greeter.Hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s: %s after %d attempts\n", resp.Status, text, attempts)
	// Output: 200 OK: hello after 3 attempts
}

func ExampleTransport() {
	executor := retry.NewExecutor(retry.ExecutorOptions{
		Classifiers: map[string]classify.Classifier{tenethttp.ClassifierName: tenethttp.Classifier()},
		Classes:     []classify.Family{tenethttp.Classes()},
	})
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()

	client := &http.Client{Transport: &tenethttp.Transport{Executor: executor}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(server.URL + "/users/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status) // not retryable, so the caller gets the response
	// Output: 404 Not Found
}
