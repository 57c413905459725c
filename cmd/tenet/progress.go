package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/files"
)

// bar returns a function that draws how far something is, and one that takes the bar away.
func (a *app) bar() (draw func(done, total int64, text string), clear func()) {
	const width, interval = 40, 50 * time.Millisecond
	var drawn time.Time
	draw = func(done, total int64, text string) {
		if now := time.Now(); done >= total || now.Sub(drawn) >= interval {
			drawn = now
			full := int(min(width*done/max(total, 1), width))
			fprintf(a.stderr, "\r%s%s %s\x1b[K", a.paint(a.stderr, cyan, strings.Repeat("█", full)), strings.Repeat("░", width-full), text)
		}
	}
	return draw, func() { fprintf(a.stderr, "\r\x1b[K") }
}

// openInput opens a file to be read as a stream, or stdin, whose size is unknown.
func (a *app) openInput(ctx context.Context, path string) (io.ReadCloser, int64, error) {
	if path == standardInput {
		read, write := io.Pipe()
		go func() { // a read of stdin that ctx ends first is left behind
			_, err := io.Copy(write, a.stdin)
			write.CloseWithError(err)
		}()
		context.AfterFunc(ctx, func() { read.CloseWithError(context.Cause(ctx)) })
		return read, 0, nil
	}
	file, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, noFile(path)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}
