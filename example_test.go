package tenet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet"
)

func ExampleDo() {
	calls := 0
	err := tenet.Do(context.Background(), tenet.ParseKey("user-service.GetUser"), func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("connection reset")
		}
		return nil
	})
	fmt.Println(calls, err)
	// Output: 3 <nil>
}

func ExampleDoValue() {
	name, err := tenet.DoValue(context.Background(), tenet.ParseKey("user-service.GetUser"), func(context.Context) (string, error) {
		return "Ada", nil
	})
	fmt.Println(name, err)
	// Output: Ada <nil>
}

func ExamplePermanent() {
	err := tenet.Do(context.Background(), tenet.ParseKey("user-service.GetUser"), func(context.Context) error {
		return tenet.Permanent(errors.New("no such user"))
	})
	fmt.Println(err)
	// Output: tenet: user-service.GetUser: non_retryable after 1 attempt: no such user
}
