package fields

import "reflect"

// Copy returns a copy of a free-form value, such as an object of a document, that shares no map and no slice with it at any
// depth. Pointers and structs are shared.
func Copy[T any](value T) T {
	same, _ := copied(reflect.ValueOf(&value).Elem()).Interface().(T)
	return same
}

func copied(v reflect.Value) reflect.Value {
	switch kind := v.Kind(); {
	case kind == reflect.Interface && !v.IsNil():
		same := reflect.New(v.Type()).Elem()
		same.Set(copied(v.Elem()))
		return same
	case kind == reflect.Map && !v.IsNil():
		same := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			same.SetMapIndex(key, copied(value))
		}
		return same
	case kind == reflect.Slice && !v.IsNil():
		same := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			same.Index(i).Set(copied(v.Index(i)))
		}
		return same
	}
	return v
}
