package testargument

import (
	"fmt"
	"testing"
)

// Refused checks that each call fails with the text that it is listed under, as an error or as a panic.
func Refused(t *testing.T, calls map[string]func() error) {
	t.Helper()
	for want, call := range calls {
		if got := failure(call); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func failure(call func() error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprint(v)
		}
	}()
	return fmt.Sprint(call())
}
