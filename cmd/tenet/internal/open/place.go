package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/adapter/http/httpsink"
	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// Place is where transactions come from or go to, as a flag says it.
type Place struct {
	Flag, Url string
	Kind      string
	Path      string     // of a file; of jobs, what follows "jobs:"
	Values    url.Values // of a file
}

// The kinds of places.
const (
	PlaceFile     = "file"
	PlaceHTTP     = "http"
	placePostgres = "postgres"
	placeAMQP     = "amqp"
	placeNATS     = "nats"
	placeJobs     = "jobs"
)

const PlaceForms = "file:PATH.jsonl, file:PATH.csv, nats://…/STREAM, amqp://…/QUEUE, postgres://…?table=…, jobs:STORE-URL?queue=… or, for a sink, http://…"

// The parameters of files.
var (
	FileSourceParameters = []string{"format", "follow", "offsets", "forget", "envelope"}
	FileSinkParameters   = []string{"format", "append", "replace", "envelope", "nosync", "columns"}
	fileSwitches         = []string{"follow", "forget", "append", "replace", "envelope", "nosync"}
)

// ParsePlace takes a URL apart. parameters are those that a file knows.
func ParsePlace(flag, text string, parameters []string) (Place, error) {
	p := Place{Flag: flag, Url: text}
	if err := address.Check(text); err != nil {
		return p, cli.Usagef("--%s: %w", flag, err)
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		return p, cli.Usagef("--%s is not a URL; write %s", flag, PlaceForms)
	}
	switch scheme {
	case "file":
		return p.file(rest, parameters)
	case "http", "https":
		p.Kind = PlaceHTTP
		sink, err := httpsink.New(text, httpsink.Options{})
		if err != nil {
			return p, cli.Usagef("--%s: %w", flag, err)
		}
		return p, sink.Close()
	case "postgres", "postgresql":
		p.Kind = placePostgres
		_, _, err := pgpipe.ParseURL(text)
		return p, p.misused(err)
	case "amqp", "amqps":
		p.Kind = placeAMQP
		_, _, err := rabbitmq.ParseURL(text)
		return p, p.misused(err)
	case "nats", "tls":
		p.Kind = placeNATS
		_, _, err := natspipe.ParseURL(text)
		return p, p.misused(err)
	case "jobs":
		p.Kind, p.Path = placeJobs, rest
		if _, err := parseJobs(rest); err != nil {
			return p, p.failed(err)
		}
	case "redis", "rediss", "kafka", "sqs":
		names := map[string]string{"redis": "Redis", "rediss": "Redis", "kafka": "Kafka", "sqs": "SQS"}
		return p, cli.Usagef("--%s %s:…: %s is not supported by this build; write %s", flag, scheme, names[scheme], PlaceForms)
	default:
		return p, cli.Usagef("--%s %s:…: unknown kind of source or sink; write %s", flag, scheme, PlaceForms)
	}
	return p, nil
}

func (p Place) file(rest string, parameters []string) (Place, error) {
	p.Kind = PlaceFile
	path, query, _ := strings.Cut(rest, "?")
	p.Path = strings.TrimPrefix(path, "//")
	var err error
	p.Values, err = url.ParseQuery(query)
	switch {
	case err != nil:
		return p, cli.Usagef("--%s: the parameters cannot be read: %w", p.Flag, err)
	case p.Path == "":
		return p, cli.Usagef("--%s %s: the path is missing; write file:orders.jsonl", p.Flag, p.Url)
	case strings.HasSuffix(strings.ToLower(p.Path), ".xlsx"):
		return p, cli.Usagef("--%s %s: XLSX is not supported by this build; save the sheet as CSV and write file:PATH.csv", p.Flag, p.Url)
	}
	for name := range p.Values {
		if !slices.Contains(parameters, name) {
			return p, cli.Usagef("--%s: a file has no parameter %q here; it has %s", p.Flag, name, strings.Join(parameters, ", "))
		}
		if yes := new(bool); slices.Contains(fileSwitches, name) {
			if err := p.switches(map[string]*bool{name: yes}); err != nil {
				return p, p.failed(err)
			}
		}
	}
	if info, err := os.Stat(p.Path); err == nil && info.IsDir() {
		return p, cli.Usagef("--%s: %s is a directory: name a file in it", p.Flag, p.Path)
	}
	if _, err := file.FormatOf(p.Path, file.Format(p.Values.Get("format"))); err != nil {
		return p, cli.Usagef("--%s: %w (?format=jsonl or ?format=csv)", p.Flag, err)
	}
	return p, nil
}

// SameFile reports whether both are the same file.
func (p *Place) SameFile(other *Place) bool {
	if p == nil || other == nil || p.Kind != PlaceFile || other.Kind != PlaceFile {
		return false
	}
	if filepath.Clean(p.Path) == filepath.Clean(other.Path) {
		return true
	}
	one, err := os.Stat(p.Path)
	if err != nil {
		return false // one that does not exist is no other
	}
	two, err := os.Stat(other.Path)
	return err == nil && os.SameFile(one, two)
}

// yes reads a parameter that is true or false.
func (p Place) yes(name string, otherwise bool) (bool, error) {
	value := p.Values.Get(name)
	if value == "" {
		return otherwise, nil
	}
	yes, err := strconv.ParseBool(value)
	if err != nil {
		return false, cli.Usagef("%s=%s: write true or false", name, value)
	}
	return yes, nil
}

// switches sets what the parameters say.
func (p Place) switches(list map[string]*bool) error {
	var faults []error
	for name, to := range list {
		yes, err := p.yes(name, *to)
		*to, faults = yes, append(faults, err)
	}
	return errors.Join(faults...)
}

// SourceCloser is a source of a connector.
type SourceCloser interface {
	pipeline.Source
	io.Closer
}

// SinkCloser is a sink of a connector.
type SinkCloser interface {
	pipeline.Sink
	io.Closer
}

// Source opens where transactions come from.
func Source(ctx context.Context, a *cli.App, p Place, log *slog.Logger) (SourceCloser, error) {
	source, err := sourceAt(ctx, a, p, log)
	if p.Kind == PlaceFile && errors.Is(err, os.ErrNotExist) {
		if !Missing(p.Path) { // the file of its offsets cannot be made
			return nil, p.failed(cli.NotMade(cmp.Or(p.Values.Get("offsets"), p.Path), err))
		}
		err = cli.NoFile(p.Path)
	}
	if err != nil {
		return nil, p.failed(err)
	}
	return source, nil
}

func sourceAt(ctx context.Context, a *cli.App, p Place, log *slog.Logger) (SourceCloser, error) {
	switch p.Kind {
	case PlaceFile:
		o := file.Options{Format: file.Format(p.Values.Get("format")), Offsets: p.Values.Get("offsets"), Log: log}
		if err := p.switches(map[string]*bool{"follow": &o.Follow, "forget": &o.Forget, "envelope": &o.Envelope}); err != nil {
			return nil, err
		}
		return file.Open(p.Path, o)
	case placePostgres:
		server, o, err := pgpipe.ParseURL(p.Url)
		if err != nil {
			return nil, cli.Fail(cli.ExitUsage, err)
		}
		if o.Consumer != "" {
			return pgpipe.OpenOutbox(ctx, server, o)
		}
		return pgpipe.OpenQueue(ctx, server, o)
	case placeAMQP:
		server, o, err := rabbitmq.ParseURL(p.Url)
		if err != nil {
			return nil, cli.Fail(cli.ExitUsage, err)
		}
		return rabbitmq.OpenSource(ctx, server, o)
	case placeNATS:
		server, o, err := natspipe.ParseURL(p.Url)
		if err != nil {
			return nil, cli.Fail(cli.ExitUsage, err)
		}
		return natspipe.OpenSource(ctx, server, o)
	case placeJobs:
		return openJobSource(ctx, a, p.Path)
	}
	return nil, cli.Usagef("HTTP can only be written to")
}

// SinkOptions are what a sink has to know beside its URL.
type SinkOptions struct {
	Letters bool          // it takes dead letters, with what they tell
	Timeout time.Duration // of HTTP requests
	Set     *policy.Set   // has the policies of jobs
}

// Sink opens where transactions go.
func Sink(ctx context.Context, a *cli.App, p Place, o SinkOptions) (SinkCloser, error) {
	if p.Kind == PlaceFile {
		sink, err := p.fileSink(o)
		switch {
		case errors.Is(err, fs.ErrExist):
			return nil, p.failed(fmt.Errorf("%s exists already: add ?append=true or ?replace=true, or name another file", p.Path))
		case err != nil:
			return nil, p.failed(cli.NotMade(p.Path, err))
		}
		return sink, nil
	}
	sink, err := sinkAt(ctx, a, p, o)
	if err != nil {
		return nil, p.failed(err)
	}
	return sink, nil
}

func (p Place) fileSink(o SinkOptions) (*file.Sink, error) {
	f := file.SinkOptions{Format: file.Format(p.Values.Get("format")), Append: o.Letters, Envelope: o.Letters}
	if columns := p.Values.Get("columns"); columns != "" {
		f.Columns = strings.Split(columns, ",")
	}
	err := p.switches(map[string]*bool{"append": &f.Append, "replace": &f.Replace, "envelope": &f.Envelope, "nosync": &f.NoSync})
	if err != nil {
		return nil, err
	}
	return file.Create(p.Path, f)
}

func sinkAt(ctx context.Context, a *cli.App, p Place, o SinkOptions) (SinkCloser, error) {
	switch p.Kind {
	case placePostgres:
		server, of, err := pgpipe.ParseURL(p.Url)
		if err != nil {
			return nil, cli.Fail(cli.ExitUsage, err)
		}
		return pgpipe.OpenSink(ctx, server, of)
	case placeAMQP:
		server, of, err := rabbitmq.ParseURL(p.Url)
		if err != nil {
			return nil, cli.Fail(cli.ExitUsage, err)
		}
		return rabbitmq.OpenSink(ctx, server, of)
	case placeNATS:
		server, of, err := natspipe.ParseURL(p.Url)
		if err != nil {
			return nil, cli.Fail(cli.ExitUsage, err)
		}
		return natspipe.OpenSink(ctx, server, of)
	case placeJobs:
		return openJobSink(ctx, a, p.Path, o.Set)
	}
	// The address is the operator's own, so it may be a private one.
	return httpsink.New(p.Url, httpsink.Options{AllowPrivateNetworks: true, Timeout: o.Timeout})
}

// misused is the usage error of a URL that cannot be read.
func (p Place) misused(err error) error {
	if err == nil {
		return nil
	}
	return cli.Usagef("--%s: %w", p.Flag, err)
}

// failed says which flag could not be followed.
func (p Place) failed(err error) error {
	code := cli.ExitFailed
	if f, ok := errors.AsType[*cli.Failure](err); ok {
		code = f.Code
	}
	return cli.Fail(code, fmt.Errorf("--%s: %w", p.Flag, err))
}
