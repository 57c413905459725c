package tenethttp_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestC4AClientRegistersItsClassifierAndClasses(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	key := policy.Key{Name: "k"}
	set, err := controlplane.NewStatic(map[policy.Key]policy.Policy{key: {Retry: policy.Retry{
		MaxAttempts: 3, InitialBackoff: 1, ClassifierName: "http", RetryOn: []policy.Class{policy.ClassHTTP5xx},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := tenethttp.Client{HTTP: server.Client(), Executor: retry.NewExecutor(retry.ExecutorOptions{Provider: set})}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(t.Context(), request, key)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || calls.Load() != 3 {
		t.Errorf("status %d after %d calls", response.StatusCode, calls.Load())
	}
}
