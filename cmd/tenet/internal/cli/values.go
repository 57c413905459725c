package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Plural formats a number with its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Choice is a flag that takes one of a few words.
type Choice struct {
	value   *string
	Allowed []string
}

// OneOf returns a flag for value. The present value is the default.
func OneOf(value *string, allowed ...string) *Choice { return &Choice{value, allowed} }

func (c *Choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

// Set implements pflag.Value.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Allowed, s) {
		return fmt.Errorf("write one of %s", strings.Join(c.Allowed, ", "))
	}
	*c.value = s
	return nil
}

// Type implements pflag.Value; help shows it.
func (c *Choice) Type() string { return strings.Join(c.Allowed, "|") }

// Span is a flag that takes a duration above 0 or, if noneToo is set, "none" for 0.
type Span struct {
	value   *time.Duration
	noneToo bool
}

// Duration returns a flag for a duration above 0.
func Duration(value *time.Duration) *Span { return &Span{value, false} }

// DurationOrNone is Duration with "none" for 0.
func DurationOrNone(value *time.Duration) *Span { return &Span{value, true} }

func (s *Span) String() string {
	if s.value == nil || *s.value == 0 {
		return ""
	}
	return s.value.String()
}

// Set implements pflag.Value.
func (s *Span) Set(text string) error {
	if s.noneToo && text == "none" {
		*s.value = 0
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("write a duration such as 250ms or 1m30s")
	}
	if d <= 0 {
		remedy := "write a duration above 0"
		if s.noneToo {
			remedy += ", or none"
		}
		return errors.New(remedy)
	}
	*s.value = d
	return nil
}

// Type implements pflag.Value; help shows it.
func (s *Span) Type() string { return "duration" }

// Brief formats a duration with at most three significant digits, and no finer than microseconds.
func Brief(d time.Duration) string {
	unit := time.Microsecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Count formats a number with its noun, for example "1 attempt" or "3 attempts".
func Count(n int, noun string) string { return Plural(n, noun, noun+"s") }

// OrNone formats a value, and the zero value as none.
func OrNone[T comparable](v T) string {
	var none T
	if v == none {
		return "none"
	}
	return fmt.Sprint(v)
}
