package policyimport

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// simpleDuration and isoDuration are the two forms of Spring Boot's DurationStyle, without a minus.
var simpleDuration = regexp.MustCompile(`^\+?([0-9]+)(ns|us|ms|s|m|h|d|)$`)

var simpleUnits = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "": time.Millisecond, "s": time.Second,
	"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

var isoDuration = regexp.MustCompile(`^\+?P(?:\+?([0-9]+)D)?(?:T(?:\+?([0-9]+)H)?(?:\+?([0-9]+)M)?(?:\+?([0-9]+(?:[.,][0-9]{0,9})?)S)?)?$`)

// placeholder matches one without another inside it: ${NAME} or ${NAME:default}.
var placeholder = regexp.MustCompile(`\$\{[^${}:]*(:[^${}]*)?\}`)

// springText replaces Spring's placeholders by their defaults.
func (r *reader) springText(text, path string) string {
	resolved := text
	for range 10 { // of them inside each other
		resolved = placeholder.ReplaceAllStringFunc(resolved, func(s string) string {
			if _, value, given := strings.Cut(s[:len(s)-1], ":"); given {
				return value
			}
			r.fault(path, "%q is a placeholder without a default; write its value", text)
			return ""
		})
	}
	if resolved != text {
		r.approximate(path, "is approximated: the default in %q is used, which the application's environment may replace", text)
	}
	return resolved
}

// springKey returns the key of a map without the brackets that keep Spring from reading its dots as levels.
func springKey(name string) string {
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		return name[1 : len(name)-1]
	}
	return name
}

// springFlag reads a boolean as Spring does.
func (o object) springFlag(name string) (on, given bool) {
	v, path := o.value(name)
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(v))) {
	case "true", "on", "yes", "1":
		on = true
	case "false", "off", "no", "0":
	default:
		if v != nil {
			o.r.fault(path, "%v is not true or false", quoted(v))
		}
		return false, false
	}
	o.r.add(Note{Path: path, Fidelity: Exact})
	return on, true
}

// springPositive reads a duration that cannot be 0.
func (o object) springPositive(name string, otherwise time.Duration) time.Duration {
	d := o.spring(name, otherwise)
	if d == 0 {
		o.r.fault(o.at(name), "must be above 0")
	}
	return d
}

// spring reads a duration as Spring Boot does: one number with one unit such as "500ms", "PT1M30S", or a number of milliseconds.
func (o object) spring(name string, otherwise time.Duration) time.Duration {
	v, path := o.value(name)
	if v == nil {
		return otherwise
	}
	o.r.add(Note{Path: path, Fidelity: Exact})
	text := strings.ToLower(strings.TrimSpace(fmt.Sprint(v)))
	sum := -1.0 // in nanoseconds
	if m := simpleDuration.FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseFloat(m[1], 64) // digits
		sum = n * float64(simpleUnits[m[2]])
	} else if m := isoDuration.FindStringSubmatch(strings.ToUpper(text)); m != nil && !strings.HasSuffix(m[0], "P") && !strings.HasSuffix(m[0], "T") {
		sum = 0
		for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
			n, _ := strconv.ParseFloat(strings.Replace(m[i+1], ",", ".", 1), 64) // an absent part is 0
			sum += n * float64(unit)
		}
	}
	switch {
	case sum < 0:
		o.r.fault(path, "%v is not a duration such as 500ms or PT1M30S, or a number of milliseconds", quoted(v))
		return otherwise
	case sum >= math.MaxInt64:
		o.r.fault(path, "%q is too long for a duration; at most 292 years", text)
		return otherwise
	}
	return time.Duration(math.Round(sum))
}
