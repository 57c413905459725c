package policyfile

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
)

const (
	// nonZeroPattern matches durations other than zero; the schema states it too.
	nonZeroPattern = `[1-9]`
	// maxSeconds is the longest time.Duration, about 292 years.
	maxSeconds = 9_223_372_036
	maxInteger = math.MaxInt32
)

var nonZeroForm = regexp.MustCompile(nonZeroPattern)

// isNull reports YAML's null.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// isNone reports null and the two strings that stand for it where documents are filled from an environment.
func isNone(n *yaml.Node) bool {
	return isNull(n) || n.Kind == yaml.ScalarNode && isString(n) && (n.Value == "" || n.Value == "none")
}

// isString includes timestamps, which YAML 1.2 does not distinguish from strings.
func isString(n *yaml.Node) bool {
	tag := n.ShortTag()
	return tag == "!!str" || tag == "!!timestamp"
}

// scalar reads a boolean, a string, a number or a duration.
func (r *reader) scalar(n *yaml.Node, f fields.Field, path string) (any, bool) {
	switch {
	case fields.IsDuration(f.Type):
		return r.duration(n, f.Rule, path)
	case f.Type.Kind() == reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			return r.mismatch(n, path, "true or false", "write true or false without quotes")
		}
		return strings.EqualFold(n.Value, "true"), true
	case f.Type.Kind() == reflect.String:
		return r.text(n, f, path)
	}
	expected := "a number"
	if f.Type.Kind() == reflect.Int {
		expected = "an integer"
	}
	value, ok := numberOf(n)
	if !ok {
		return r.mismatch(n, path, expected, "write "+expected+" without quotes")
	}
	switch integer := f.Type.Kind() == reflect.Int; {
	case math.IsNaN(value) || math.IsInf(value, 0):
	case integer && value != math.Trunc(value):
		return r.mismatch(n, path, expected, "write "+expected)
	case integer && value > maxInteger && path != "version":
		r.clamp(n, path, "is too large and is lowered to the highest value allowed", fmt.Sprintf("write %d or less", maxInteger))
		value = maxInteger
	}
	return r.ranged(n, f.Rule, value, path)
}

func (r *reader) refuse(n *yaml.Node, path, problem, remedy string) (any, bool) {
	r.faults.add(placeOf(n), path, short(n.Value)+" "+problem, remedy)
	return nil, false
}

// clamp warns of a value outside the range of its type, and clamps it. The limit of its surface may clamp it further.
func (r *reader) clamp(n *yaml.Node, path, problem, remedy string) {
	r.clamped[path] = true
	r.faults.warn(placeOf(n), path, short(n.Value)+" "+problem, remedy)
}

func (r *reader) ranged(n *yaml.Node, rule fields.Rule, value float64, path string) (any, bool) {
	if problem, remedy := rule.Check(value); problem != "" {
		return r.refuse(n, path, problem, remedy)
	}
	return value, true
}

func (r *reader) text(n *yaml.Node, f fields.Field, path string) (any, bool) {
	if n.Kind != yaml.ScalarNode || !isString(n) {
		return r.mismatch(n, path, "a string", "put the value in quotes")
	}
	if f.Type == categoryType {
		if category, known := policy.ParseCategory(n.Value); known {
			return string(category), true
		}
	}
	enum, ok := reflect.Zero(f.Type).Interface().(interface{ Values() []string })
	if !ok || slices.Contains(enum.Values(), n.Value) {
		return n.Value, true
	}
	remedy := orElse(n.Value, enum.Values(), "write one of "+strings.Join(enum.Values(), ", "))
	r.faults.add(placeOf(n), path, fmt.Sprintf("unknown value %q", short(n.Value)), remedy)
	return nil, false
}

// numberOf reads a YAML number. A string is not a number.
func numberOf(n *yaml.Node) (float64, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
		return 0, false
	}
	if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
		return f, true
	}
	var f float64 // other bases, .inf and .nan
	if err := n.Decode(&f); err != nil {
		return math.Inf(1), true // out of range
	}
	return f, true
}

const durationRemedy = `write seconds as a number, or a string such as "250ms" or "1h30m"`

// duration reads seconds or a string such as "250ms" and returns seconds.
func (r *reader) duration(n *yaml.Node, rule fields.Rule, path string) (any, bool) {
	seconds, ok := numberOf(n)
	switch {
	case ok:
	case n.Kind != yaml.ScalarNode || !isString(n):
		return r.mismatch(n, path, "a duration", durationRemedy)
	case !fields.DurationForm(strings.TrimPrefix(n.Value, "-")):
		return r.mismatch(n, path, "a duration", durationRemedy)
	case strings.HasPrefix(n.Value, "-"):
		return r.ranged(n, rule, -1, path)
	default:
		d, err := policy.ParseDuration(n.Value)
		switch seconds = fields.Seconds(d); {
		case err != nil: // the form is right, so that it is too long
			seconds = maxSeconds + 1
		case seconds == 0 && nonZeroForm.MatchString(n.Value):
			seconds = math.SmallestNonzeroFloat64
		}
	}
	switch {
	case seconds > maxSeconds && !math.IsInf(seconds, 0):
		r.clamp(n, path, "is too long and is lowered to the longest duration allowed", "write 292 years or less")
		seconds = maxSeconds
	case seconds > 0 && seconds < time.Nanosecond.Seconds(): // it would be rounded to 0, which means none
		r.clamp(n, path, "is below a nanosecond and is raised to the shortest duration allowed", "write a longer duration, or 0")
		seconds = time.Nanosecond.Seconds()
	}
	return r.ranged(n, rule, seconds, path)
}

// free reads the values of fetch.extra, which may be anything that JSON can hold.
func (r *reader) free(n *yaml.Node, path string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		return r.mismatch(n, path, "an object", "write names with their values")
	}
	return r.anything(n, path)
}

func (r *reader) anything(n *yaml.Node, path string) (any, bool) {
	n = target(n)
	switch {
	case n.Kind == yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			value, ok := r.anything(item, path)
			if !ok {
				return nil, false
			}
			list = append(list, value)
		}
		return list, true
	case n.Kind == yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			value, ok := r.anything(n.Content[i+1], path)
			if !ok {
				return nil, false
			}
			object[target(n.Content[i]).Value] = value
		}
		return object, true
	case isNull(n):
		return nil, true
	case n.ShortTag() == "!!bool":
		return strings.EqualFold(n.Value, "true"), true
	case isString(n):
		return n.Value, true
	}
	value, ok := numberOf(n)
	if !ok {
		return r.mismatch(n, path, "a JSON value", "put it in quotes")
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return r.refuse(n, path, "is not a finite number", "write a finite number, or put it in quotes")
	}
	if value == math.Trunc(value) && math.Abs(value) > maxExact {
		return r.refuse(n, path, "is beyond what a JSON number holds exactly", "put it in quotes")
	}
	return value, true
}

// maxExact is 2⁵³, up to which float64 holds every integer.
const maxExact = 1 << 53
