package paging

import "iter"

// All yields the rows after a cursor. It reads pages of at most size rows, each after the cursor of the row before, until a
// page is not full. An error of page ends the rows and is yielded last. Nothing is held while a row is yielded.
func All[C, R any](after C, size int, page func(after C, limit int) ([]R, error), cursor func(R) C) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for {
			rows, err := page(after, size)
			if err != nil {
				var none R
				yield(none, err)
				return
			}
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
			if len(rows) < size {
				return
			}
			after = cursor(rows[len(rows)-1])
		}
	}
}
