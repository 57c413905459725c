package demo_test

import (
	"fmt"

	"github.com/tenetdev/tenet/cmd/tenet/internal/demo"
)

func ExampleSchedule() {
	s := demo.Schedule{Seed: 1}
	for n := 1; n <= 5; n++ {
		fmt.Println(n, s.Fault("sensors", "sen-1", n))
	}
	// Output:
	// 1 connection_reset
	// 2 connection_reset
	// 3 none
	// 4 unavailable_503
	// 5 unavailable_503
}
