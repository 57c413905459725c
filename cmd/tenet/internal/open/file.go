package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// fileEnd is a file of transactions.
type fileEnd struct {
	path   string
	values url.Values
}

// switches lists the boolean parameters of files.
func switches() []string {
	return []string{"follow", "forget", "append", "replace", "envelope", "nosync"}
}

// fileParameters lists the parameters of files as sources or sinks.
func fileParameters(u Use) []string {
	if u == UseSource {
		return []string{"format", "follow", "offsets", "forget", "envelope"}
	}
	return []string{"format", "append", "replace", "envelope", "nosync", "columns"}
}

func parseFile(at location) (end, error) {
	_, query, _ := strings.Cut(at.URL, "?")
	values, err := url.ParseQuery(query)
	e := &fileEnd{at.path, values}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the parameters cannot be read: %w", err)
	case strings.HasSuffix(strings.ToLower(e.path), ".xlsx"):
		return nil, errors.New("XLSX is not supported by this build; save the sheet as CSV and write file:PATH.csv")
	}
	for name := range values {
		if known := fileParameters(at.Use); !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown parameter %q; files have %s here", name, strings.Join(known, ", "))
		}
		if slices.Contains(switches(), name) {
			if err := e.set(name, new(bool)); err != nil {
				return nil, err
			}
		}
	}
	if info, err := os.Stat(e.path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: name a file in it", e.path)
	}
	if _, err := file.FormatOf(e.path, e.format()); err != nil {
		return nil, fmt.Errorf("%w (?format=jsonl or ?format=csv)", err)
	}
	return e, nil
}

func (e *fileEnd) format() file.Format { return file.Format(e.values.Get("format")) }

// offsets returns the path of the file that records how far a source was read.
func (e *fileEnd) offsets() string { return cmp.Or(e.values.Get("offsets"), e.path+".offset") }

// set sets a switch from the parameters, if they have it.
func (e *fileEnd) set(name string, to *bool) error {
	text := e.values.Get(name)
	if text == "" {
		return nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%s=%s: write true or false", name, text)
	}
	*to = on
	return nil
}

func (e *fileEnd) source(_ context.Context, _ *cli.App, log *slog.Logger) (SourceCloser, error) {
	o := file.SourceOptions{Format: e.format(), Offsets: e.values.Get("offsets"), Log: log}
	err := errors.Join(e.set("follow", &o.Follow), e.set("forget", &o.Forget), e.set("envelope", &o.Envelope))
	if err != nil {
		return nil, err
	}
	source, err := file.OpenSource(e.path, o)
	switch {
	case err == nil:
		return source, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case cli.Missing(e.path):
		return nil, cli.NoFile(e.path)
	}
	return nil, cli.NotMade(cmp.Or(e.values.Get("offsets"), e.path), err)
}

func (e *fileEnd) sink(_ context.Context, _ *cli.App, o SinkOptions) (SinkCloser, error) {
	f := file.SinkOptions{Format: e.format(), Append: o.Letters, Envelope: o.Letters}
	if columns := e.values.Get("columns"); columns != "" {
		f.Columns = strings.Split(columns, ",")
	}
	err := errors.Join(e.set("append", &f.Append), e.set("replace", &f.Replace), e.set("envelope", &f.Envelope), e.set("nosync", &f.NoSync))
	if err != nil {
		return nil, err
	}
	sink, err := file.OpenSink(e.path, f)
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
