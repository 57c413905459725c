package policyfile

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
)

// level is one object of a document that governs a key.
type level struct {
	path   string
	values map[string]any
}

// overlay merges levels over base, the most specific level last. It changes neither.
func overlay(base map[string]any, levels ...level) map[string]any {
	result := base
	for i := len(levels) - 1; i >= 0; i-- {
		result = merge(dropFactor(result, levels[i].values), levels[i].values)
	}
	return result
}

// merge merges top over base, field by field. Lists and an explicit none replace the value below.
func merge(base, top map[string]any) map[string]any {
	result := maps.Clone(base)
	if result == nil {
		result = map[string]any{}
	}
	for name, value := range top {
		if inner, ok := value.(map[string]any); ok {
			result[name] = merge(object(result, name), inner)
			continue
		}
		result[name] = value
	}
	return result
}

// dropFactor removes the jitter factor from base if top selects a jitter without a factor.
func dropFactor(base, top map[string]any) map[string]any {
	jitter, given := object(top, "retry")["jitter"]
	retry := object(base, "retry")
	if !given || jitter == string(policy.JitterProportional) || retry == nil {
		return base
	}
	retry = maps.Clone(retry)
	delete(retry, "jitter_factor")
	base = maps.Clone(base)
	base["retry"] = retry
	return base
}

// settleRetry gives those values of a merged retry their meaning that Go's zero cannot carry: a jitter factor of 0 is no
// jitter, and no max_pushback is a very long one.
func settleRetry(values map[string]any, l policy.Limits) map[string]any {
	retry := object(values, "retry")
	pushback, given := retry["max_pushback"]
	unbounded := given && pushback == nil
	still := retry["jitter_factor"] == 0.0
	if !unbounded && !still {
		return values
	}
	retry = maps.Clone(retry)
	if unbounded {
		retry["max_pushback"] = policy.Unbounded.Seconds()
	}
	jitter, given := retry["jitter"]
	if still && (jitter == string(policy.JitterProportional) || !given && l.Jitter == policy.JitterProportional) {
		retry["jitter"] = string(policy.JitterNone)
	}
	if still {
		delete(retry, "jitter_factor")
	}
	values = maps.Clone(values)
	values["retry"] = retry
	return values
}

// replacedZeros warns of the zeros of a merged retry that stand for a default or lie outside the limits. Go's zero is an absent
// value, so that policy.Check cannot see them.
func replacedZeros(values map[string]any, l policy.Limits) (found []policy.Violation) {
	retry := object(values, "retry")
	for name, r := range map[string]policy.Range[time.Duration]{"backoff": l.Backoff, "backoff_cap": l.Cap} {
		if retry[name] != 0.0 {
			continue
		}
		replaced := policy.Violation{Path: "retry." + name, Warning: true}
		switch none := name == "backoff_cap"; {
		case l.Surface != policy.SurfaceStep:
			replaced.Problem = fmt.Sprintf("0 is replaced by the default, %s", r.Default)
			replaced.Remedy = fmt.Sprintf("write %s or more, or leave the field out", r.Min)
		case none && r.Max < math.MaxInt64:
			replaced.Problem = fmt.Sprintf("0, no cap, is above the limit and is lowered to %s", r.Max)
			replaced.Remedy = fmt.Sprintf("write %s or less", r.Max)
		case !none && r.Min > 0:
			replaced.Problem = fmt.Sprintf("0 is below the limit and is raised to %s", r.Min)
			replaced.Remedy = fmt.Sprintf("write %s or more", r.Min)
		default:
			continue // a step that does not wait, or whose waits have no bound
		}
		found = append(found, replaced)
	}
	return found
}

// settleEmptyQueue gives the zeros of a consumer's empty_queue their meaning: no cap, and the shortest wait.
func settleEmptyQueue(values map[string]any) (settled map[string]any, found []policy.Violation) {
	queue := object(object(values, "loop"), "empty_queue")
	change := map[string]any{}
	if queue["backoff_cap"] == 0.0 {
		change["backoff_cap"] = policy.Unbounded.Seconds()
	}
	if queue["backoff"] == 0.0 {
		change["backoff"] = policy.MinEmptyBackoff.Seconds()
		found = append(found, policy.Violation{
			Path: "loop.empty_queue.backoff", Problem: fmt.Sprintf("0 is below the limit and is raised to %s", policy.MinEmptyBackoff),
			Remedy: fmt.Sprintf("write %s or more", policy.MinEmptyBackoff), Warning: true,
		})
	}
	return merge(values, map[string]any{"loop": map[string]any{"empty_queue": change}}), found
}

// fold moves the timeout and budget of a job or queue to where policies have them, into retry.
func fold(values map[string]any) map[string]any {
	retry := maps.Clone(object(values, "retry"))
	if retry == nil {
		retry = map[string]any{}
	}
	folded := map[string]any{"retry": retry}
	for name, value := range values {
		switch name {
		case "timeout", "budget":
			retry[name] = value
		case "category", "circuit":
			folded[name] = value
		}
	}
	return folded
}

// assign sets v from values that the reader has checked. Absent fields stay as they are.
func assign(v reflect.Value, value any) {
	switch x := value.(type) {
	case nil:
		v.SetZero()
	case float64:
		switch {
		case fields.IsDuration(v.Type()):
			d, _ := policy.Seconds(x)
			v.SetInt(int64(d))
		case v.Kind() == reflect.Int:
			v.SetInt(int64(x))
		default:
			v.SetFloat(x)
		}
	case string:
		v.SetString(x)
	case bool:
		v.SetBool(x)
	case []any:
		list := reflect.MakeSlice(v.Type(), len(x), len(x))
		for i, item := range x {
			assign(list.Index(i), item)
		}
		v.Set(list)
	case map[string]any:
		assignObject(v, x)
	}
}

func assignObject(v reflect.Value, values map[string]any) {
	if v.Type() == freeType {
		v.Set(reflect.ValueOf(maps.Clone(values)))
		return
	}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMapWithSize(v.Type(), len(values)))
		for name, value := range values {
			entry := reflect.New(v.Type().Elem()).Elem()
			assign(entry, value)
			v.SetMapIndex(reflect.ValueOf(name), entry)
		}
		return
	}
	for _, f := range fields.Of(v.Type()) {
		if value, given := values[f.Name]; given {
			assign(v.Field(f.Index), value)
		}
	}
}

// as converts an object's values to a Go value.
func as[T any](values map[string]any) T {
	var t T
	assign(reflect.ValueOf(&t).Elem(), values)
	return t
}

// find looks for a policy's field in the object at level: the field itself, a job's shorter form of it, or an object
// around it that is explicitly none.
func find(known map[string]field, level, name string) (path string, f field, ok bool) {
	candidates := []string{fields.Join(level, name)}
	if rest, ok := strings.CutPrefix(name, "retry."); ok && (under(rest, "timeout") || under(rest, "budget")) {
		candidates = append(candidates, fields.Join(level, rest))
	}
	for _, path := range candidates {
		if f, ok := known[path]; ok {
			return path, f, true
		}
		for len(path) > len(level) {
			path = path[:max(strings.LastIndexByte(path, '.'), 0)]
			if f, ok := known[path]; ok && f.none {
				return path, f, true
			}
		}
	}
	return "", field{}, false
}

// under reports whether path is name or lies below it.
func under(path, name string) bool { return path == name || strings.HasPrefix(path, name+".") }
