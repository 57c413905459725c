package api_test

import (
	"fmt"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

func ExampleNewJob() {
	j := api.NewJob(&job.Record{ID: "1", Type: "mail", Payload: []byte("not JSON")}, nil)
	fmt.Printf("%q %q\n", j.Payload, j.PayloadBase64)
	r, _ := j.Record()
	fmt.Printf("%s\n", r.Payload)
	// Output:
	// "" "not JSON"
	// not JSON
}
