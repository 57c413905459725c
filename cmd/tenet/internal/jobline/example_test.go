package jobline_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobline"
	"github.com/tenetdev/tenet/job"
)

func ExampleImport() {
	store := memory.Open().Jobs()
	defer store.Close()
	const file = `{"type":"http","payload":{"url":"https://example.com/ping"}}
{"type":"http","prioritty":1}
`
	for range 2 {
		result, err := jobline.Import(context.Background(), job.NewClient(store), strings.NewReader(file), jobline.Options{})
		fmt.Println(result.Imported, "imported,", result.Existing, "existing,", result.Rejected, err)
	}
	// Output:
	// 1 imported, 0 existing, [{2 unknown field "prioritty"; did you mean "priority"?}] <nil>
	// 0 imported, 1 existing, [{2 unknown field "prioritty"; did you mean "priority"?}] <nil>
}
