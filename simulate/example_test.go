package simulate_test

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/simulate"
)

// A service that fails one request in five, and clients that make up to four attempts.
func Example() {
	scenario, err := simulate.Parse("scenario.yaml", []byte(`
version: 1
duration: 10m
policies:
  orders.Get: {retry: {max_attempts: 4, backoff: 10ms}}
services:
  orders: {latency: {mean: 20ms}, errors: 0.2}
clients:
  shop: {service: orders, policy: orders.Get, count: 10, rate: 10}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := scenario.Run(context.Background(), simulate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	shop := report.Clients[0]
	fmt.Printf("%.2f attempts per call, %.1f %% succeed\n", shop.AttemptsPerCall, 100*shop.Success)
	// Output: 1.25 attempts per call, 99.8 % succeed
}
