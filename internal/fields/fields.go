package fields

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Field is one documented field of a struct.
type Field struct {
	Name  string // in documents
	Index int
	Type  reflect.Type
	Rule  Rule
	Kind  string // of the thing that it names, which something else must define; empty for other fields
}

// kindOf maps fields, by Go type and document name, to the kind of thing that they name.
var kindOf = map[string]string{
	"Retry.retry_on":   "class",
	"Retry.abort_on":   "class",
	"Retry.classifier": "classifier",
	"Hedge.trigger":    "trigger",
	"BudgetRef.name":   "budget",
}

// Rule is the range of values that a number or duration accepts when it is present.
type Rule struct {
	Min, Max float64 // inclusive; -Inf and +Inf where unbounded
	Positive bool    // greater than zero
	Null     bool    // null means none
	Reserved bool    // must not be set

	duration bool // bounds are seconds
}

var duration = reflect.TypeFor[time.Duration]()

// IsDuration reports whether t is time.Duration, which documents write in seconds.
func IsDuration(t reflect.Type) bool { return t == duration }

// Seconds returns a duration as documents write it: the number nearest to it. The standard library's method rounds twice, and turns
// 1.118s into 1.1179999999999999.
func Seconds(d time.Duration) float64 { return float64(d) / float64(time.Second) }

// Deprecated maps fields that are on their way out ("Retry.old_name": Go type and document name) to what to write instead.
// A reader warns about such a field; once its Go field is removed, the value is ignored.
func Deprecated() map[string]string { return map[string]string{} }

var cache sync.Map // reflect.Type → []Field

// Of lists the fields of struct type t that documents know, in order of declaration.
func Of(t reflect.Type) []Field {
	if known, ok := cache.Load(t); ok {
		return known.([]Field)
	}
	var list []Field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		list = append(list, Field{Name: name, Index: i, Type: f.Type, Rule: parseRule(f.Type, f.Tag.Get("check")), Kind: kindOf[t.Name()+"."+name]})
	}
	cache.Store(t, list)
	return list
}

func parseRule(t reflect.Type, tag string) Rule {
	r := Rule{Min: math.Inf(-1), Max: math.Inf(1), duration: IsDuration(t)}
	for part := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(part, "=")
		number, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "min":
			r.Min = number
		case "max":
			r.Max = number
		case "positive":
			r.Positive = true
		case "null":
			r.Null = true
		case "reserved":
			r.Reserved = true
		}
	}
	return r
}

// Check returns what is wrong with a present value and how to correct it; both are empty for a valid one. Durations are
// given in seconds.
func (r Rule) Check(value float64) (problem, remedy string) {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return "not a finite number", "write a finite number"
	case r.Reserved:
		return "reserved for later use", "remove the field"
	case r.Positive && value <= 0 && r.Null:
		return "must be greater than 0", "write null for none, or a value above 0"
	case r.Positive && value <= 0:
		return "must be greater than 0", "leave the field out for its default"
	case value < r.Min:
		return "must be at least " + r.text(r.Min), "write " + r.text(r.Min) + " or more, or leave the field out"
	case value > r.Max:
		return "must be at most " + r.text(r.Max), "write " + r.text(r.Max) + " or less, or leave the field out"
	}
	return "", ""
}

// text writes a bound as a document would.
func (r Rule) text(bound float64) string {
	d := time.Duration(bound * float64(time.Second))
	switch {
	case !r.duration || d == 0:
		return strconv.FormatFloat(bound, 'f', -1, 64)
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	}
	return d.String()
}
