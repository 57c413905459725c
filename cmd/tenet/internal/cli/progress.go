package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/files"
)

// Bar returns a function that draws a progress bar on stderr, and one that removes it.
func (a *App) Bar() (draw func(done, total int64, text string), clear func()) {
	const width, interval = 40, 50 * time.Millisecond
	var drawn time.Time
	draw = func(done, total int64, text string) {
		if now := time.Now(); done >= total || now.Sub(drawn) >= interval {
			drawn = now
			full := int(min(width*done/max(total, 1), width))
			Fprintf(a.Stderr, "\r%s%s %s\x1b[K", a.Paint(a.Stderr, Cyan, strings.Repeat("█", full)), strings.Repeat("░", width-full), text)
		}
	}
	return draw, func() { Fprintf(a.Stderr, "\r\x1b[K") }
}

// OpenInput opens a file or stdin to be read as a stream, and returns its size. The size of stdin is 0.
func (a *App) OpenInput(ctx context.Context, path string) (io.ReadCloser, int64, error) {
	if path == StandardInput {
		if err := a.takeStdin(); err != nil {
			return nil, 0, err
		}
		read, write := io.Pipe()
		go func() { // goes on in the background if ctx ends first
			_, err := io.Copy(write, a.Stdin)
			write.CloseWithError(err)
		}()
		context.AfterFunc(ctx, func() { write.CloseWithError(context.Cause(ctx)) }) // reads return the cause
		return read, 0, nil
	}
	file, err := files.Open(path)
	if err != nil {
		return nil, 0, NotRead(path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}
