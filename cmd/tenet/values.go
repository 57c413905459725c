package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value   *string
	allowed []string
}

// oneOf makes a flag of value, whose present value is the default.
func oneOf(value *string, allowed ...string) *choice { return &choice{value, allowed} }

func (c *choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("write one of %s", strings.Join(c.allowed, ", "))
	}
	*c.value = s
	return nil
}

func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

// span is a flag that takes a duration above 0 or, where that makes sense, "none", which is 0.
type span struct {
	value   *time.Duration
	noneToo bool
}

// duration makes a flag of a duration above 0.
func duration(value *time.Duration) *span { return &span{value, false} }

// durationOrNone is duration, where "none" is 0.
func durationOrNone(value *time.Duration) *span { return &span{value, true} }

func (s *span) String() string {
	if s.value == nil || *s.value == 0 {
		return ""
	}
	return s.value.String()
}

func (s *span) Set(text string) error {
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

func (s *span) Type() string { return "duration" }

// brief writes a duration for people, with three significant digits at most and no finer than microseconds.
func brief(d time.Duration) string {
	unit := time.Microsecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// seconds is how JSON output writes durations.
func seconds(d time.Duration) float64 { return float64(d) / float64(time.Second) }

// count writes a number with its noun, for example "1 attempt" or "3 attempts".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
