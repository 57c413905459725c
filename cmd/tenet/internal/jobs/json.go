package jobs

import (
	"encoding/json"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// NewJSON returns a job as commands print it: as a server describes it, but with a payload and an output that are not JSON as
// strings. Lists have no history, which is nil then.
func NewJSON(r *job.Record, history []job.Attempt) api.Job {
	j := api.NewJob(r, history)
	j.Payload, j.PayloadBase64 = asJSON(r.Payload), nil
	if len(j.Payload) == 0 {
		j.Payload = json.RawMessage("null")
	}
	j.Output, j.OutputBase64 = asJSON(r.Output), nil
	return j
}

// asJSON returns a payload that is valid JSON unchanged, and any other as a JSON string.
func asJSON(raw []byte) json.RawMessage {
	if len(raw) == 0 || json.Valid(raw) {
		return raw
	}
	text, _ := json.Marshal(string(raw)) // strings can always be encoded
	return text
}
