package paging_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tenetdev/tenet/internal/paging"
)

func TestAllRowsAreReadPageByPage(t *testing.T) {
	for rows, want := range map[int]string{0: "[] after [0]", 2: "[1 2] after [0]", 3: "[1 2 3] after [0 3]", 7: "[1 2 3 4 5 6 7] after [0 3 6]"} {
		var asked, got []int
		page := func(after, limit int) (list []int, _ error) {
			asked = append(asked, after)
			for n := after + 1; n <= rows && len(list) < limit; n++ {
				list = append(list, n)
			}
			return list, nil
		}
		for n, err := range paging.All(0, 3, page, func(n int) int { return n }) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, n)
		}
		if s := fmt.Sprint(got, " after ", asked); s != want {
			t.Errorf("%d rows: %s, want %s", rows, s, want)
		}
	}
}

func TestAllEndsWithAnErrorOrItsCaller(t *testing.T) {
	broken := errors.New("broken")
	pages := 0
	page := func(int, int) ([]int, error) {
		if pages++; pages > 1 {
			return nil, broken
		}
		return []int{1, 2}, nil
	}
	var last error
	n := 0
	for _, err := range paging.All(0, 2, page, func(n int) int { return n }) {
		n, last = n+1, err
	}
	if n != 3 || !errors.Is(last, broken) {
		t.Errorf("%d rows, then %v", n, last)
	}
	pages = 0
	for range paging.All(0, 2, page, func(n int) int { return n }) {
		break
	}
	if pages != 1 {
		t.Errorf("%d pages were read for one row", pages)
	}
}
