package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// exact is the largest integer that every reader of JSON keeps exactly.
const exact = 1 << 53

// Nanos is a duration in nanoseconds. In JSON it is a number, and beyond ±2⁵³ (104 days) a decimal string, because readers
// of JSON may round larger numbers.
type Nanos int64

// MarshalJSON writes the number, or the string where the number is too large.
func (n Nanos) MarshalJSON() ([]byte, error) { return appendNanos(nil, n), nil }

// UnmarshalJSON reads both forms.
func (n *Nanos) UnmarshalJSON(b []byte) error {
	digits := strings.TrimSuffix(strings.TrimPrefix(string(b), `"`), `"`)
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return fmt.Errorf("audit: %s is not a number of nanoseconds", b)
	}
	*n = Nanos(v)
	return nil
}

// Duration is n as a time.Duration.
func (n Nanos) Duration() time.Duration { return time.Duration(n) }

func appendNanos(b []byte, n Nanos) []byte {
	if n >= -exact && n <= exact {
		return strconv.AppendInt(b, int64(n), 10)
	}
	b = append(b, '"')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '"')
}

// microseconds cuts a time to what is stored.
func microseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
