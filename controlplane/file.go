package controlplane

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/policy"
)

// FileOptions configure [NewFile]. The zero value is usable.
type FileOptions struct {
	// Interval between checks of the file. Default 1 s; negative means that only Reload checks it.
	Interval time.Duration
	// Limits by surface, wider or narrower than the built-in ones, which apply to absent surfaces.
	Limits map[policy.Surface]policy.Limits
	// OnChange is called with every new document after it has come into force, except the first. OnError is called once for
	// every distinct fault: a missing file, a file that cannot be read, an invalid document. Both are called on the
	// provider's goroutine or on that of Reload, and must not call Reload or Close.
	OnChange func(*policy.Set)
	OnError  func(error)
	// Logger for the same. Default slog.Default().
	Logger *slog.Logger
}

// File is a provider that reads a document from disk and reloads it when its content changes. If the file is missing or
// invalid, the last good document stays in force without an error, and Status reports the fault. Create it with [NewFile].
type File struct{ *live }

// NewFile reads the YAML or JSON document at path and starts one goroutine, which follows the file and ends with Close. It
// fails if the file is missing or its document is invalid; errors.As finds the *policyfile.Error with all faults.
//
// NewFile compares contents, not times or names, so it notices files that are overwritten, renamed into place or reached
// through symbolic links, as Kubernetes mounts them. New content counts once it has stayed the same for 20 ms, so that a
// partial write is not taken for a document; a rename is safer still. A change of only comments or layout does not make a
// new version.
func NewFile(path string, o FileOptions) (*File, error) {
	if path == "" {
		return nil, errors.New("controlplane: NewFile: the path is empty")
	}
	polled := o.Interval >= 0
	defaultTo(&o.Interval, time.Second)
	l := newLive(&fileStore{path: path}, liveOptions{
		name: path, source: policy.SourceFile, quiet: true, interval: o.Interval, timeout: defaultTimeout,
		lowPause: o.Interval, maxPause: o.Interval, limits: o.Limits,
		onChange: o.OnChange,
	}, newReports(o.OnError, o.Logger), nil)
	data, revision, err := l.load(l.ctx)
	if err = l.apply(data, revision, err); err != nil {
		l.cancel()
		return nil, err
	}
	l.announced = l.good.set // OnChange is not called for the first document
	if polled {
		l.group.Go(l.follow)
	}
	return &File{l}, nil
}

// settle is how long new content must stay the same before it counts. A file that is read in the middle of a write may be
// empty or, worse, a shorter document that is valid.
const settle = 20 * time.Millisecond

// fileStore is a document on disk.
type fileStore struct {
	path string
	last string // revision
}

func (f *fileStore) Load(ctx context.Context) (data []byte, revision string, err error) {
	data, revision, err = f.read()
	for err == nil && f.last != "" && f.last != revision {
		f.last = revision
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
		data, revision, err = f.read()
	}
	if err == nil {
		f.last = revision
	}
	return data, revision, err
}

func (f *fileStore) read() (data []byte, revision string, err error) {
	file, err := files.Open(f.path)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = file.Close() }()
	data, err = io.ReadAll(io.LimitReader(file, maxBody+1)) // the parser refuses more than maxBody bytes
	if err != nil {
		return nil, "", err
	}
	return data, digest(data), nil
}

func (f *fileStore) Watch(context.Context) (<-chan struct{}, error) { return nil, nil }
