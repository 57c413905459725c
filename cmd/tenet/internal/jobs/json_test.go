package jobs

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/tenetdev/tenet/job"
)

// TestPrintedJobsAreUTF8: programs that read them refuse other bytes, even in JSON that Go takes for valid.
func TestPrintedJobsAreUTF8(t *testing.T) {
	for payload, want := range map[string]string{
		"{\"a\":\"b\xff\"}": "{\"a\":\"b\uFFFD\"}", "\xff": "\"\uFFFD\"", `{"a":"\ud83d"}`: `{"a":"\ud83d"}`, "": "null",
	} {
		printed, err := json.Marshal(NewJSON(&job.Record{Payload: []byte(payload), Output: []byte(payload)}, nil))
		var out struct{ Payload json.RawMessage }
		if err := errors.Join(err, json.Unmarshal(printed, &out)); err != nil || string(out.Payload) != want {
			t.Errorf("%q: %q, %v", payload, out.Payload, err)
		}
	}
}
