package paging

import (
	"context"
	"fmt"
	"math"
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
	position, err := positionOf(after, 0)
	if err != nil {
		return err
	}
	return each(ctx, position, page, f)
}

// LinesBefore calls f for every line before a cursor, or all for "", from the last to the first, like Lines.
func LinesBefore(ctx context.Context, before string, page func(before int64, limit int) ([]Line, error), f func(cursor string, line []byte) error) error {
	position, err := positionOf(before, math.MaxInt64)
	if err != nil {
		return err
	}
	return each(ctx, position, page, f)
}

func positionOf(cursor string, absent int64) (int64, error) {
	if cursor == "" {
		return absent, nil
	}
	position, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("audit: cursor %q: pass one that the log has returned", cursor)
	}
	return position, nil
}

func each(ctx context.Context, from int64, page func(from int64, limit int) ([]Line, error), f func(cursor string, line []byte) error) error {
	for line, err := range All(from, linesPerPage, page, func(l Line) int64 { return l.Position }) {
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
