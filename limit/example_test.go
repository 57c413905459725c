package limit_test

import (
	"fmt"
	"time"

	"github.com/tenetdev/tenet/limit"
	"github.com/tenetdev/tenet/policy"
)

func Example() {
	limiter := limit.New(policy.Limit{Concurrency: 1}, 0)
	fmt.Println("first:", limiter.TryEnter())
	fmt.Println("second:", limiter.TryEnter())

	second := limiter.Queue() // a position in the line
	limiter.Leave(limit.Measured, 20*time.Millisecond, time.Second)
	<-second.Ready()
	fmt.Println("inside:", limiter.Inside())
	// Output:
	// first: true
	// second: false
	// inside: 1
}
