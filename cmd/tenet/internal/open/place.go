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

// SinkOptions is what a sink has to know beside its URL.
type SinkOptions struct {
	Letters bool          // it takes dead letters, with what they tell
	Timeout time.Duration // of HTTP requests
	Set     *policy.Set   // has the policies of jobs
}

// end is an end of a pipeline: a parsed URL that can be opened.
type end interface {
	source(ctx context.Context, a *cli.App, log *slog.Logger) (SourceCloser, error)
	sink(ctx context.Context, a *cli.App, o SinkOptions) (SinkCloser, error)
}

// Place is a source or a sink that a flag names. Parsing it has opened nothing.
type Place struct {
	Ref
	end end
}

// ParsePlace parses the URL of a source or a sink with its parameters.
func ParsePlace(r Ref) (*Place, error) {
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

// Source opens where transactions come from.
func (p *Place) Source(ctx context.Context, a *cli.App, log *slog.Logger) (SourceCloser, error) {
	source, err := p.end.source(ctx, a, log)
	if err != nil {
		return nil, p.wrap(err)
	}
	return source, nil
}

// Sink opens where transactions go.
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

// FileOffsets returns the path of a source that is a file, and of the file that records how far it was read.
func (p *Place) FileOffsets() (path, offsets string, ok bool) {
	f := p.file()
	if f == nil {
		return "", "", false
	}
	return f.path, f.offsets(), true
}

// file is the file that the place is, or nil.
func (p *Place) file() *fileEnd {
	if p == nil {
		return nil
	}
	f, _ := p.end.(*fileEnd)
	return f
}

// wrap says which flag the error is about, and keeps its exit code.
func (r Ref) wrap(err error) error {
	code := cli.ExitFailed
	if f, ok := errors.AsType[*cli.Failure](err); ok {
		code = f.Code
	}
	return cli.Fail(code, fmt.Errorf("--%s: %w", r.Flag, err))
}
