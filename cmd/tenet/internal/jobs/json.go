package jobs

import (
	"bytes"
	"encoding/json"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// NewJSON returns a job as commands print it: as a server describes it, but with a payload and an output that are not JSON as
// strings, and U+FFFD for bytes that are not UTF-8, which JSON readers refuse. Lists have no history, which is nil then.
func NewJSON(r *job.Record, history []job.Attempt) api.Job {
	j := api.NewJob(r, history)
	text := func(raw []byte) json.RawMessage { return asJSON(bytes.ToValidUTF8(raw, []byte("\uFFFD"))) }
	j.Payload, j.PayloadBase64 = text(r.Payload), nil
	if len(j.Payload) == 0 {
		j.Payload = json.RawMessage("null")
	}
	j.Output, j.OutputBase64 = text(r.Output), nil
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
