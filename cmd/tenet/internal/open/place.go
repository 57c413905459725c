package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// SourceCloser is a source of an adapter.
type SourceCloser interface {
	pipeline.Source
	io.Closer
}

// SinkCloser is a sink of an adapter.
type SinkCloser interface {
	pipeline.Sink
	io.Closer
}

// SinkOptions are the options of a sink that its URL does not set.
type SinkOptions struct {
	Letters bool          // it takes dead letters, with their errors and attempts
	Timeout time.Duration // of HTTP requests
	Set     *policy.Set   // has the policies of jobs
}

// end is an end of a pipeline: a parsed URL that can be opened.
type end interface {
	source(ctx context.Context, a *cli.App, log *slog.Logger) (SourceCloser, error)
	sink(ctx context.Context, a *cli.App, o SinkOptions) (SinkCloser, error)
}

// Place is the source or sink of a flag, parsed but not opened.
type Place struct {
	Ref
	end end
}

// ParsePlace parses the URL of a source or a sink with its parameters. It returns nil without a URL.
func ParsePlace(r Ref) (*Place, error) {
	if r.URL == "" {
		return nil, nil
	}
	at, s, err := r.locate()
	if err != nil {
		return nil, err
	}
	end, err := s.parse(at)
	if err != nil {
		return nil, at.wrap(cli.AsUsage(err))
	}
	return &Place{r, end}, nil
}

// Source opens the place as a source.
func (p *Place) Source(ctx context.Context, a *cli.App, log *slog.Logger) (SourceCloser, error) {
	source, err := p.end.source(ctx, a, log)
	if err != nil {
		return nil, p.wrap(err)
	}
	return source, nil
}

// Sink opens the place as a sink.
func (p *Place) Sink(ctx context.Context, a *cli.App, o SinkOptions) (SinkCloser, error) {
	sink, err := p.end.sink(ctx, a, o)
	if err != nil {
		return nil, p.wrap(err)
	}
	return sink, nil
}

// SameFile reports whether both are the same file.
func (p *Place) SameFile(other *Place) bool {
	one, two := p.file(), other.file()
	return one != nil && two != nil && sameFile(one.path, two.path)
}

// FileOffsets returns the paths of a source that is a file and of its offsets file.
func (p *Place) FileOffsets() (path, offsets string, ok bool) {
	f := p.file()
	if f == nil {
		return "", "", false
	}
	return f.path, f.offsets(), true
}

// file returns the file of the place, or nil.
func (p *Place) file() *fileEnd {
	if p == nil {
		return nil
	}
	f, _ := p.end.(*fileEnd)
	return f
}

// wrap adds the flag to an error, and keeps its exit code.
func (r Ref) wrap(err error) error {
	code := cli.ExitFailed
	if f, ok := errors.AsType[*cli.Failure](err); ok {
		code = f.Code
	}
	return cli.Fail(code, fmt.Errorf("--%s: %w", r.Flag, err))
}
