package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/address"
)

// fileEnd is a file of transactions.
type fileEnd struct {
	path       string
	parameters *address.Parameters
}

func parseFile(at location) (end, error) {
	_, query, _ := strings.Cut(at.URL, "?")
	p, err := address.ReadParameters(query)
	e := &fileEnd{at.path, p}
	switch {
	case err != nil:
		return nil, err
	case strings.HasSuffix(strings.ToLower(e.path), ".xlsx"):
		return nil, errors.New("XLSX is not supported by this build; save the sheet as CSV and write file:PATH.csv")
	case at.Use == UseSource:
		_ = e.sourceOptions()
	default:
		_ = e.sinkOptions(false)
	}
	if _, err := p.Only(); err != nil {
		return nil, err
	}
	if info, err := os.Stat(e.path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: name a file in it", e.path)
	}
	if _, err := file.FormatOf(e.path, e.format()); err != nil {
		return nil, fmt.Errorf("%w (?format=jsonl or ?format=csv)", err)
	}
	return e, nil
}

func (e *fileEnd) format() file.Format { return file.Format(e.parameters.Text("format")) }

func (e *fileEnd) sourceOptions() file.SourceOptions {
	o := file.SourceOptions{Format: e.format(), Offsets: e.parameters.Text("offsets")}
	e.parameters.Switch("follow", &o.Follow)
	e.parameters.Switch("forget", &o.Forget)
	e.parameters.Switch("envelope", &o.Envelope)
	return o
}

// sinkOptions returns the options of a file, which holds dead letters or something else.
func (e *fileEnd) sinkOptions(letters bool) file.SinkOptions {
	o := file.SinkOptions{Format: e.format(), Append: letters, Envelope: letters}
	e.parameters.Switch("append", &o.Append)
	e.parameters.Switch("replace", &o.Replace)
	e.parameters.Switch("envelope", &o.Envelope)
	e.parameters.Switch("nosync", &o.NoSync)
	if columns := e.parameters.Text("columns"); columns != "" {
		o.Columns = strings.Split(columns, ",")
	}
	return o
}

// offsets returns the path of the file that records how far a source was read.
func (e *fileEnd) offsets() string { return cmp.Or(e.parameters.Text("offsets"), e.path+".offset") }

func (e *fileEnd) source(_ context.Context, _ *cli.App, log *slog.Logger) (SourceCloser, error) {
	o := e.sourceOptions()
	o.Log = log
	source, err := file.OpenSource(e.path, o)
	switch failed, _ := errors.AsType[*fs.PathError](err); {
	case err == nil:
		return source, nil
	case errors.Is(err, fs.ErrNotExist) && cli.Missing(e.path):
		return nil, cli.NoFile(e.path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.NotMade(e.offsets(), err)
	case failed != nil && failed.Path != e.path: // the source itself is only read
		return nil, fmt.Errorf("%w; ?offsets=PATH names another file, ?forget=true keeps none", cli.NotMade(e.offsets(), err))
	}
	return nil, err
}

func (e *fileEnd) sink(_ context.Context, _ *cli.App, o SinkOptions) (SinkCloser, error) {
	sink, err := file.OpenSink(e.path, e.sinkOptions(o.Letters))
	switch {
	case err == nil:
		return sink, nil
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%s exists already: add ?append=true or ?replace=true, or name another file", e.path)
	}
	return nil, cli.NotMade(e.path, err)
}

// sameFile reports whether two paths name the same file.
func sameFile(one, two string) bool {
	if filepath.Clean(one) == filepath.Clean(two) {
		return true
	}
	first, err := os.Stat(one)
	if err != nil {
		return false // a file that does not exist yet is not the same as another one
	}
	second, err := os.Stat(two)
	return err == nil && os.SameFile(first, second)
}
