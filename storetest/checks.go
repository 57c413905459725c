package storetest

import (
	"reflect"
	"sync"

	"pgregory.net/rapid"
)

// noDiff fails the test if cmp.Diff(want, got) has found a difference.
func noDiff(t rapid.TB, what, diff string) {
	t.Helper()
	if diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// same fails the test unless it got what it wants.
func same[T comparable](t rapid.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
}

// errorOf is the error of a call whose other result does not matter.
func errorOf[T any](_ T, err error) error { return err }

// optional returns a store as what it may implement. It skips the test for a store that does not.
func optional[T any](t rapid.TB, store any) T {
	t.Helper()
	found, ok := store.(T)
	if !ok {
		t.Skipf("%T is not a %v", store, reflect.TypeFor[T]())
	}
	return found
}

// atOnce makes n calls of f at once and waits for them.
func atOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}

// pages reads page after page, until one is empty. next returns the page behind an element, which is zero for the first page.
func pages[T any](t rapid.TB, next func(last T) ([]T, error)) (all []T) {
	t.Helper()
	var last T
	for {
		page, err := next(last)
		if err != nil {
			t.Fatalf("the page behind %+v: %v", last, err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		last = all[len(all)-1]
	}
}
