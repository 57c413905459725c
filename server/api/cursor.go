package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// Cursor says where a page of a list ended. Its content is the server's own; clients hand it back as it is.
type Cursor string

// NewCursor makes the cursor of a list from its position in it.
func NewCursor(list string, position any) Cursor {
	raw, _ := json.Marshal(map[string]any{list: position}) // positions are strings and structs of strings
	return Cursor(base64.RawURLEncoding.EncodeToString(raw))
}

// Position reads the position in a list into p, unless the cursor is empty. It fails for a cursor of another list.
func (c Cursor) Position(list string, p any) error {
	if c == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || bytes.Contains(raw, []byte(`\u0000`)) {
		return errors.New("cursor: not one of this server")
	}
	var found map[string]json.RawMessage
	if json.Unmarshal(raw, &found) != nil || len(found) != 1 || found[list] == nil || json.Unmarshal(found[list], p) != nil {
		return errors.New("cursor: not one of this list")
	}
	return nil
}

// The lists whose position a client of a store knows: the last ID of a page.
const (
	JobCursor    = "jobs"    // a job's ID
	RecordCursor = "records" // an idempotency.ID

	RedriveCursor = "redrives" // a redrive's ID
	FlowCursor    = "flows"    // a flow's cursor
)
