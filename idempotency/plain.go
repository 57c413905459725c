package idempotency

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tenetdev/tenet/internal/storable"
)

const (
	// maxInteger is 2⁵³: beyond it, float64 and thus JSON in many languages skips integers.
	maxInteger = 1 << 53
	maxDepth   = 100
)

// plainOf turns a value into one of maps, slices, strings, booleans, numbers and nil, which has exactly one canonical form.
// encoding/json alone would silently replace invalid text and round large numbers.
func plainOf(path string, v any) (any, error) { return plain(path, reflect.ValueOf(v), 0) }

func member(path, name string, v any) (any, error) {
	if !utf8.ValidString(name) {
		return nil, &KeyError{path, "has a member whose name " + problemUTF8}
	}
	return plainOf(path+"."+name, v)
}

func plain(path string, v reflect.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, &KeyError{path, fmt.Sprintf("is nested more than %d deep", maxDepth)}
	}
	if !v.IsValid() {
		return nil, nil
	}
	if n, ok := v.Interface().(json.Number); ok {
		return number(path, string(n))
	}
	if encodesItself(v) {
		return encoded(path, v, depth)
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return plain(path, v.Elem(), depth+1)
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return nil, &KeyError{path, problemUTF8}
		}
		return v.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n := v.Int(); n > maxInteger || n < -maxInteger {
			return nil, tooLarge(path, strconv.FormatInt(n, 10))
		}
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if n := v.Uint(); n > maxInteger {
			return nil, tooLarge(path, strconv.FormatUint(n, 10))
		}
		return v.Uint(), nil
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		if v.Kind() == reflect.Float32 { // as encoding/json writes it
			f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', -1, 32), 64)
		}
		return finite(path, f, strconv.FormatFloat(f, 'g', -1, 64))
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String && !encodesText(v.Type().Key()) {
			return plainMap(path, v, depth)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return plainList(path, v, depth)
		}
	}
	return encoded(path, v, depth)
}

func plainMap(path string, v reflect.Value, depth int) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	object := make(map[string]any, v.Len())
	for iter := v.MapRange(); iter.Next(); {
		name := iter.Key().String()
		if !utf8.ValidString(name) {
			return nil, &KeyError{path, "has a member whose name " + problemUTF8}
		}
		value, err := plain(path+"."+name, iter.Value(), depth+1)
		if err != nil {
			return nil, err
		}
		object[name] = value
	}
	return object, nil
}

func plainList(path string, v reflect.Value, depth int) (any, error) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return nil, nil
	}
	list := make([]any, v.Len())
	for i := range list {
		value, err := plain(fmt.Sprintf("%s[%d]", path, i), v.Index(i), depth+1)
		if err != nil {
			return nil, err
		}
		list[i] = value
	}
	return list, nil
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func encodesText(t reflect.Type) bool { return t.Implements(textMarshaler) }

// encodesItself reports whether the value has its own JSON or text encoding.
func encodesItself(v reflect.Value) bool {
	switch t := v.Type(); v.Kind() {
	case reflect.Interface:
		return false
	case reflect.Pointer:
		return t.Implements(marshaler) || encodesText(t)
	default: // a pointer also has the methods of the value
		t = reflect.PointerTo(t)
		return t.Implements(marshaler) || encodesText(t)
	}
}

// encoded lets encoding/json encode a struct, bytes or a value with its own encoding, and makes the result plain.
func encoded(path string, v reflect.Value, depth int) (any, error) {
	if v.Kind() != reflect.Pointer { // encoding/json uses methods of a pointer only where it can take one
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		v = p
	}
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, &KeyError{path, err.Error()}
	}
	if storable.Escapes(raw, altered) {
		return nil, &KeyError{path, "holds text that " + problemUTF8}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil { // not reached in tests: package json has checked the output of MarshalJSON
		return nil, &KeyError{path, err.Error()}
	}
	return plain(path, reflect.ValueOf(decoded), depth+1)
}

// altered reports whether an escaped character tells that a text is not what it was: \ufffd, by which encoding/json replaces bytes that are
// not UTF-8 (it does not escape the character itself), and an unpaired surrogate, which it would decode as that character.
func altered(r rune) bool { return r == utf8.RuneError || utf16.IsSurrogate(r) }

// number reads a number of JSON text.
func number(path, text string) (any, error) {
	if !json.Valid([]byte(text)) || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return nil, &KeyError{path, "holds " + strconv.Quote(text) + ", which is not a number"}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, tooLarge(path, text)
	}
	// A number that is too large may round to 2⁵³.
	if f == maxInteger && text != strconv.FormatInt(maxInteger, 10) || f == -maxInteger && text != strconv.FormatInt(-maxInteger, 10) {
		return nil, tooLarge(path, text)
	}
	return finite(path, f, text)
}

func finite(path string, f float64, text string) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, &KeyError{path, "is " + text + ", which JSON cannot hold"}
	}
	if math.Abs(f) > maxInteger {
		return nil, tooLarge(path, text)
	}
	return f, nil
}

func tooLarge(path, text string) error {
	return &KeyError{path, "is " + text + ", beyond ±2⁵³ (9007199254740992), where numbers of JSON are not exact; write it as a string"}
}
