package idempotency_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
)

// The card is charged once for repeated requests.
func Example() {
	ctx := context.Background()
	db := memory.Open() // or a store that processes share
	defer db.Close()
	guard, err := idempotency.NewGuard(db.Idempotency(), idempotency.GuardOptions{Operation: "charge"})
	if err != nil {
		fmt.Println(err)
		return
	}

	type receipt struct{ ID string }
	charge := func(order string, cents int) (receipt, error) {
		fingerprint, err := idempotency.Fingerprint(map[string]any{"order": order, "cents": cents})
		if err != nil {
			return receipt{}, err
		}
		return idempotency.DoValue(ctx, guard, idempotency.Request{Key: order, Fingerprint: fingerprint}, func(context.Context) (receipt, error) {
			fmt.Println("charging", cents)
			return receipt{ID: "r-1"}, nil
		})
	}
	fmt.Println(charge("order-7", 1250))
	fmt.Println(charge("order-7", 1250))
	_, err = charge("order-7", 9900)
	fmt.Println(errors.Is(err, idempotency.ErrMismatch))
	// Output:
	// charging 1250
	// {r-1} <nil>
	// {r-1} <nil>
	// true
}

// A failure marked as final is stored like a result; after another failure the next caller runs.
func ExampleGuard_Do() {
	ctx := context.Background()
	guard, err := idempotency.NewGuard(memory.Open().Idempotency(), idempotency.GuardOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	answers := []error{errors.New("connection reset"), classify.Business(errors.New("card declined"))}
	for range 3 {
		_, err := guard.Do(ctx, idempotency.Request{Key: "order-8"}, func(context.Context) ([]byte, error) {
			answer := answers[0]
			answers = answers[1:]
			return nil, answer
		})
		fmt.Println(err)
	}
	// Output:
	// connection reset
	// card declined
	// idempotency: order-8 has failed for good: card declined
}

// Code that cannot run the effect in a function begins and settles a ticket.
func ExampleGuard_Begin() {
	ctx := context.Background()
	guard, err := idempotency.NewGuard(memory.Open().Idempotency(), idempotency.GuardOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		ticket, err := guard.Begin(ctx, idempotency.Request{Key: "order-9"})
		if err != nil {
			fmt.Println(err)
			return
		}
		if ticket.Replayed() {
			result, _ := ticket.Result()
			fmt.Printf("replayed: %s\n", result)
			continue
		}
		fmt.Println("running") // under ticket.Context()
		if err := ticket.Complete(ctx, []byte("done"), true); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// running
	// replayed: done
}

// A key is derived from the parameters of the effect.
func ExampleParts_Key() {
	key, err := idempotency.Parts{
		Operation: "charge", TenantID: "acme", CorrelationID: "order-7",
		Params: map[string]any{"cents": 1250, "currency": "EUR"},
	}.Key()
	fmt.Println(key, err)
	_, err = idempotency.Parts{Params: map[string]any{"account": map[string]any{"number": int64(9007199254740993)}}}.Key()
	fmt.Println(err)
	// Output:
	// 538a976858feaca9e3b5cda96c7fe4f04e95e87eb416ad9fef34bd4242afd7d1 <nil>
	// idempotency: params.account.number: is 9007199254740993, beyond ±2⁵³ (9007199254740992), where numbers of JSON are not exact; write it as a string
}
