package audit

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrLine is what [ParseLine] fails with.
var ErrLine = errors.New("audit: not an event")

// ParseLine reads an event from the line that stores it. Unknown members are ignored, so that logs with additions can be
// read; a schema version beyond [SchemaVersion], an unknown form or a missing ID, type or time is an [ErrLine]. It does not
// check the hash: that is what Verify does. The event shares nothing with the line.
func ParseLine(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrLine, err)
	}
	switch {
	case e.SchemaVersion < 1 || e.SchemaVersion > SchemaVersion:
		return Event{}, fmt.Errorf("%w: schema_version %d is not known here; a newer tenet may read it", ErrLine, e.SchemaVersion)
	case e.ID == "":
		return Event{}, fmt.Errorf("%w: event_id is missing", ErrLine)
	case e.Type == "":
		return Event{}, fmt.Errorf("%w: event_type is missing", ErrLine)
	case e.Time.IsZero():
		return Event{}, fmt.Errorf("%w: timestamp is missing", ErrLine)
	}
	return e, nil
}
