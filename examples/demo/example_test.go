package demo_test

import (
	"fmt"
	"strings"

	"github.com/tenetdev/tenet/examples/demo"
)

func ExampleDeliveries() {
	first, _, _ := strings.Cut(demo.Deliveries(), "\n")
	fmt.Println(strings.Count(demo.Deliveries(), "\n"), "deliveries")
	fmt.Println(first[:68])
	// Output:
	// 1000 deliveries
	// {"type":"http","queue":"shipping","unique_key":"shi-a165438a-0001","
}
