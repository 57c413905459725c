package audit

import (
	"context"
	"time"
)

// Bounds end the reading of a part of a log. Zero values do not bound.
type Bounds struct {
	Lines int           // that are read
	Time  time.Duration // after which no further lines are read
}

// part is a source of the lines of another source from a cursor on, up to some bounds.
type part struct {
	Source
	after string // the cursor of the last line read
	b     Bounds
	cut   bool // the bounds ended the reading
}

// Read implements Source. It goes on where the last reading ended.
func (p *part) Read(ctx context.Context, _ string, f func(cursor string, line []byte) error) error {
	began, lines := time.Now(), 0
	err := p.Source.Read(ctx, p.after, func(cursor string, line []byte) error {
		if p.b.Lines > 0 && lines == p.b.Lines || p.b.Time > 0 && lines%256 == 255 && time.Since(began) >= p.b.Time {
			p.cut = true
			return errEnough
		}
		if err := f(cursor, line); err != nil {
			return err
		}
		lines++
		p.after = cursor
		return nil
	})
	if p.cut {
		return nil
	}
	return err
}
