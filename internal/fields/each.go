package fields

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Each calls f with every field of a struct that has a value, and its path in documents. It skips hedging and breakers that are
// off.
func Each(prefix string, v reflect.Value, f func(path string, v reflect.Value)) {
	for _, field := range Of(v.Type()) {
		value, path := v.Field(field.Index), prefix+field.Name
		off := path == "hedge" && !value.FieldByName("Enabled").Bool() || path == "circuit" && value.FieldByName("Kind").String() == ""
		switch {
		case off, value.IsZero():
		case value.Kind() == reflect.Struct:
			Each(path+".", value, f)
		case value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct:
			for i := range value.Len() {
				Each(fmt.Sprintf("%s[%d].", path, i), value.Index(i), f)
			}
		default:
			f(path, value)
		}
	}
}

// At returns the field of a struct at a path in documents; ok is false if there is none.
func At(v reflect.Value, path string) (field reflect.Value, ok bool) {
	name, rest, nested := strings.Cut(path, ".")
	list := Of(v.Type())
	i := slices.IndexFunc(list, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return field, false
	}
	if field = v.Field(list[i].Index); nested {
		return At(field, rest)
	}
	return field, true
}

// unbounded is a duration from which on a field means that there is no bound: the longest one, less what seconds round away.
const unbounded = math.MaxInt64 - time.Hour

// Text writes the value of a field as documents do.
func Text(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		if d > unbounded {
			return "none"
		}
		return d.String()
	}
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	items := make([]string, v.Len())
	for i := range items {
		items[i] = fmt.Sprint(v.Index(i).Interface())
	}
	return strings.Join(items, ", ")
}
