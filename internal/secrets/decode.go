package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// DecodeError wraps an error in decoding JSON and leaves the value that did not fit out of its text: package json quotes numbers, such
// as a card number in a field of type int32, and times. DecodeError(nil) is nil.
func DecodeError(err error) error {
	if err == nil {
		return nil
	}
	return &decodeError{err}
}

type decodeError struct{ error }

func (e *decodeError) Unwrap() error { return e.error }

// Error implements error.
func (e *decodeError) Error() string {
	err := e.error
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(wrong.Value, " ")
		if wrong.Field == "" {
			return fmt.Sprintf("a JSON %s is not %s", kind, wrong.Type)
		}
		return fmt.Sprintf("%s: a JSON %s is not %s", wrong.Field, kind, wrong.Type)
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		return "a JSON string is not a time in RFC 3339"
	}
	if text, _, ok := strings.Cut(err.Error(), ", trying to unmarshal "); ok { // a json.Number
		return text
	}
	return err.Error()
}
