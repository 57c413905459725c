package audit

import (
	"encoding/json"
	"math"
	"reflect"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/policy"
)

// anyEvent draws an event with any value of its type in each member.
func anyEvent() *rapid.Generator[Event] {
	return rapid.Custom(func(t *rapid.T) Event {
		var e Event
		fill(t, reflect.ValueOf(&e).Elem())
		e.SchemaVersion = SchemaVersion
		if e.ID == "" {
			e.ID = "id"
		}
		if e.Type == "" {
			e.Type = CallStopped
		}
		return e
	})
}

var (
	anyText  = rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,20}`), rapid.SampledFrom([]string{"", "\x00\x1f\x7f", "<&>\u2028\"\\/", "\b\t\n\f\r", "é😀\uffff"}))
	anyNanos = rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1000, 1e12), rapid.SampledFrom([]int64{exact, -exact, exact + 1, math.MaxInt64, math.MinInt64}))
	anyFloat = rapid.OneOf(rapid.Float64Range(0, 1e6), rapid.SampledFrom([]float64{1.05, 1e-6, 9.9e-7, 1e-9, 1e20, 1e21, 1.5e300, -0.25, 5e-324, 123456789.125}))
)

// fill sets v, and everything in it, to drawn values, many of them empty.
func fill(t *rapid.T, v reflect.Value) {
	switch into := v.Addr().Interface().(type) {
	case *Nanos:
		*into = Nanos(anyNanos.Draw(t, "ns"))
		return
	case *time.Time:
		*into = time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "time")).UTC()
		return
	case *json.RawMessage:
		if rapid.Bool().Draw(t, "policy") {
			*into = json.RawMessage(`{"id":"rev-1","retry":{"backoff":0.05,"max_attempts":4}}`)
		}
		return
	case *policy.Class:
		*into = policy.Class(rapid.StringMatching(`[a-z_]{1,8}`).Draw(t, "class"))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.String:
		v.SetString(anyText.Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(-exact, exact).Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64Range(0, exact-1).Draw(t, "uint"))
	case reflect.Float64:
		v.SetFloat(anyFloat.Draw(t, "float"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.Map:
		if m := rapid.MapOfN(anyText, anyText, 0, 4).Draw(t, "map"); len(m) > 0 {
			v.Set(reflect.ValueOf(m))
		}
	default:
		panic("audit: no generator for " + v.Type().String())
	}
}
