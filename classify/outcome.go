package classify

import (
	"fmt"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Outcome is the meaning of one attempt's result.
type Outcome struct {
	Kind     Kind
	Category Category
	// Class is the most specific class that decided, if one did.
	Class policy.Class
	// Reason is one of policy.Reasons. In records, any other reason becomes the attribute detail, and the reason of the kind replaces it. The
	// history of a job has the detail at the end of the error.
	Reason policy.Reason
	// Attributes carry details for records; never secrets or payloads. Read-only once returned.
	Attributes map[string]string
	// Pushback is the wait that the other side asked for: no retry starts earlier. 0 is none.
	Pushback time.Duration
}

// Kind is what an outcome allows.
type Kind uint8

// The kinds of outcome.
const (
	Success Kind = iota
	Retryable
	NonRetryable
	Abort
)

var kinds = [...]string{"success", "retryable", "non_retryable", "abort"}

// String returns the kind as records write it.
func (k Kind) String() string { return name(kinds[:], int(k)) }

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. An unknown value is an error and changes nothing.
func (k *Kind) UnmarshalText(b []byte) error {
	i, err := index(kinds[:], string(b))
	if err != nil {
		return err
	}
	*k = Kind(i)
	return nil
}

// Category is the side that a failure belongs to. Breakers count system and timeout failures only.
type Category uint8

// The categories. A success has none.
const (
	CategoryNone Category = iota
	CategoryBusiness
	CategorySystem
	CategoryTimeout
)

var categories = [...]string{"", "business", "system", "timeout"}

// String returns the category as records write it.
func (c Category) String() string { return name(categories[:], int(c)) }

// MarshalText implements encoding.TextMarshaler.
func (c Category) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. An unknown value is an error and changes nothing.
func (c *Category) UnmarshalText(b []byte) error {
	i, err := index(categories[:], string(b))
	if err != nil {
		return err
	}
	*c = Category(i)
	return nil
}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("invalid(%d)", i)
}

func index(names []string, s string) (uint8, error) {
	for i, n := range names {
		if n == s {
			return uint8(i), nil
		}
	}
	return 0, fmt.Errorf("classify: unknown value %q", s)
}
