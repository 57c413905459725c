package paging

import (
	"context"
	"fmt"
	"strconv"
)

// Line is a stored text and its place in the order of all.
type Line struct {
	Position int64
	Text     []byte
}

// linesPerPage is how many lines are read at a time.
const linesPerPage = 500

// Lines calls f for every line after a cursor, which is the decimal position of a line or "" for all, until f returns an
// error or the context ends.
func Lines(ctx context.Context, after string, page func(after int64, limit int) ([]Line, error), f func(cursor string, line []byte) error) error {
	position := int64(0)
	if after != "" {
		var err error
		if position, err = strconv.ParseInt(after, 10, 64); err != nil {
			return fmt.Errorf("audit: cursor %q: pass one that Read returned", after)
		}
	}
	for line, err := range All(position, linesPerPage, page, func(l Line) int64 { return l.Position }) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = f(strconv.FormatInt(line.Position, 10), line.Text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
