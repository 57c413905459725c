package audit

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/internal/canonical"
)

// ErrLine is what [ParseLine] fails with.
var ErrLine = errors.New("audit: not an event")

// ParseLine reads an event from the line that stores it. Unknown members are ignored, so that logs with additions can be
// read; a schema version beyond [SchemaVersion], an unknown form or a missing ID, type or time is an [ErrLine]. It does not
// check the hash: that is what Verify does. The event shares nothing with the line.
func ParseLine(line []byte) (Event, error) {
	var e Event
	if err := e.UnmarshalJSON(line); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrLine, err)
	}
	if problem := e.problem(e.ID != ""); problem != "" {
		return Event{}, fmt.Errorf("%w: %s", ErrLine, problem)
	}
	return e, nil
}

// problem names a member that every event has but e lacks.
func (e *Event) problem(hasID bool) string {
	switch {
	case e.SchemaVersion < 1 || e.SchemaVersion > SchemaVersion:
		return fmt.Sprintf("schema_version %d is not known here; a newer tenet may read it", e.SchemaVersion)
	case !hasID:
		return "event_id is missing"
	case e.Type == "":
		return "event_type is missing"
	case e.Time.IsZero():
		return "timestamp is missing"
	}
	return ""
}

// MarshalJSON returns the event as canonical JSON.
func (e Event) MarshalJSON() ([]byte, error) {
	var w encoder
	w.event(&e)
	return w.b, nil
}

// UnmarshalJSON reads an event, whose members may be in any order, and skips unknown members.
func (e *Event) UnmarshalJSON(raw []byte) error {
	if e.parse(raw) == nil {
		return nil
	}
	raw, err := canonical.Marshal(json.RawMessage(raw))
	if err != nil {
		return err
	}
	return e.parse(raw)
}

// parse reads canonical JSON.
func (e *Event) parse(raw []byte) error {
	*e = Event{}
	r := lineReader{line: raw}
	c := codec{r: &r}
	if read(&c, e, (*Event).members); !r.complete() {
		return fmt.Errorf("member %q cannot be read", c.failed)
	}
	return nil
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
			stamp = !r.time().IsZero()
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
