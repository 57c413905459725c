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

// CheckLine fails with the [ErrLine] of [ParseLine] where a line was cut off, merged with another or is not an event at all. It
// takes a tenth of the time; of the members' values it looks only at those that every event has.
func CheckLine(line []byte) error {
	var version uint64
	var id, kind, stamp bool
	r := lineReader{line: line}
	sound := r.members(func(name []byte) {
		switch string(name) {
		case "event_id":
			id = len(r.text()) > 0
		case "event_type":
			kind = len(r.text()) > 0
		case "timestamp":
			stamp = r.stamp() != 0
		case "schema_version":
			version = r.unsigned()
		default:
			r.value()
		}
	})
	if sound && id && kind && stamp && version >= 1 && version <= SchemaVersion {
		return nil
	}
	_, err := ParseLine(line)
	return err
}
