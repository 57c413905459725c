package main

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
	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// place is where transactions come from or go to, as a flag says it.
type place struct {
	flag, url string
	kind      string
	path      string     // of a file; of jobs, what follows "jobs:"
	values    url.Values // of a file
}

// The kinds of places.
const (
	placeFile     = "file"
	placeHTTP     = "http"
	placePostgres = "postgres"
	placeAMQP     = "amqp"
	placeNATS     = "nats"
	placeJobs     = "jobs"
)

const placeForms = "file:PATH.jsonl, file:PATH.csv, nats://…/STREAM, amqp://…/QUEUE, postgres://…?table=…, jobs:STORE-URL?queue=… or, for a sink, http://…"

// The parameters of files.
var (
	fileSourceParameters = []string{"format", "follow", "offsets", "forget", "envelope"}
	fileSinkParameters   = []string{"format", "append", "replace", "envelope", "nosync", "columns"}
	fileSwitches         = []string{"follow", "forget", "append", "replace", "envelope", "nosync"}
)

// parsePlace takes a URL apart. parameters are those that a file knows.
func parsePlace(flag, text string, parameters []string) (place, error) {
	p := place{flag: flag, url: text}
	if err := address.Check(text); err != nil {
		return p, usage("--%s: %w", flag, err)
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		return p, usage("--%s is not a URL; write %s", flag, placeForms)
	}
	switch scheme {
	case "file":
		return p.file(rest, parameters)
	case "http", "https":
		p.kind = placeHTTP
		sink, err := httpsink.New(text, httpsink.Options{})
		if err != nil {
			return p, usage("--%s: %w", flag, err)
		}
		return p, sink.Close()
	case "postgres", "postgresql":
		p.kind = placePostgres
		_, _, err := pgpipe.ParseURL(text)
		return p, p.misused(err)
	case "amqp", "amqps":
		p.kind = placeAMQP
		_, _, err := rabbitmq.ParseURL(text)
		return p, p.misused(err)
	case "nats", "tls":
		p.kind = placeNATS
		_, _, err := natspipe.ParseURL(text)
		return p, p.misused(err)
	case "jobs":
		p.kind, p.path = placeJobs, rest
		if _, err := parseJobs(rest); err != nil {
			return p, p.failed(err)
		}
	case "redis", "rediss", "kafka", "sqs":
		names := map[string]string{"redis": "Redis", "rediss": "Redis", "kafka": "Kafka", "sqs": "SQS"}
		return p, usage("--%s %s:…: %s is not supported by this build; write %s", flag, scheme, names[scheme], placeForms)
	default:
		return p, usage("--%s %s:…: unknown kind of source or sink; write %s", flag, scheme, placeForms)
	}
	return p, nil
}

func (p place) file(rest string, parameters []string) (place, error) {
	p.kind = placeFile
	path, query, _ := strings.Cut(rest, "?")
	p.path = strings.TrimPrefix(path, "//")
	var err error
	p.values, err = url.ParseQuery(query)
	switch {
	case err != nil:
		return p, usage("--%s: the parameters cannot be read: %w", p.flag, err)
	case p.path == "":
		return p, usage("--%s %s: the path is missing; write file:orders.jsonl", p.flag, p.url)
	case strings.HasSuffix(strings.ToLower(p.path), ".xlsx"):
		return p, usage("--%s %s: XLSX is not supported by this build; save the sheet as CSV and write file:PATH.csv", p.flag, p.url)
	}
	for name := range p.values {
		if !slices.Contains(parameters, name) {
			return p, usage("--%s: a file has no parameter %q here; it has %s", p.flag, name, strings.Join(parameters, ", "))
		}
		if yes := new(bool); slices.Contains(fileSwitches, name) {
			if err := p.switches(map[string]*bool{name: yes}); err != nil {
				return p, p.failed(err)
			}
		}
	}
	if info, err := os.Stat(p.path); err == nil && info.IsDir() {
		return p, usage("--%s: %s is a directory: name a file in it", p.flag, p.path)
	}
	if _, err := file.FormatOf(p.path, file.Format(p.values.Get("format"))); err != nil {
		return p, usage("--%s: %w (?format=jsonl or ?format=csv)", p.flag, err)
	}
	return p, nil
}

// sameFile reports whether both are the same file.
func (p *place) sameFile(other *place) bool {
	if p == nil || other == nil || p.kind != placeFile || other.kind != placeFile {
		return false
	}
	if filepath.Clean(p.path) == filepath.Clean(other.path) {
		return true
	}
	one, err := os.Stat(p.path)
	if err != nil {
		return false // one that does not exist is no other
	}
	two, err := os.Stat(other.path)
	return err == nil && os.SameFile(one, two)
}

// yes reads a parameter that is true or false.
func (p place) yes(name string, otherwise bool) (bool, error) {
	value := p.values.Get(name)
	if value == "" {
		return otherwise, nil
	}
	yes, err := strconv.ParseBool(value)
	if err != nil {
		return false, usage("%s=%s: write true or false", name, value)
	}
	return yes, nil
}

// switches sets what the parameters say.
func (p place) switches(list map[string]*bool) error {
	var faults []error
	for name, to := range list {
		yes, err := p.yes(name, *to)
		*to, faults = yes, append(faults, err)
	}
	return errors.Join(faults...)
}

// sourceCloser is a source of a connector.
type sourceCloser interface {
	pipeline.Source
	io.Closer
}

// sinkCloser is a sink of a connector.
type sinkCloser interface {
	pipeline.Sink
	io.Closer
}

// openSource opens where transactions come from.
func (a *app) openSource(ctx context.Context, p place, log *slog.Logger) (sourceCloser, error) {
	source, err := a.sourceAt(ctx, p, log)
	if p.kind == placeFile && errors.Is(err, os.ErrNotExist) {
		if !missing(p.path) { // the file of its offsets cannot be made
			return nil, p.failed(notMade(cmp.Or(p.values.Get("offsets"), p.path), err))
		}
		err = noFile(p.path)
	}
	if err != nil {
		return nil, p.failed(err)
	}
	return source, nil
}

func (a *app) sourceAt(ctx context.Context, p place, log *slog.Logger) (sourceCloser, error) {
	switch p.kind {
	case placeFile:
		o := file.Options{Format: file.Format(p.values.Get("format")), Offsets: p.values.Get("offsets"), Log: log}
		if err := p.switches(map[string]*bool{"follow": &o.Follow, "forget": &o.Forget, "envelope": &o.Envelope}); err != nil {
			return nil, err
		}
		return file.Open(p.path, o)
	case placePostgres:
		server, o, err := pgpipe.ParseURL(p.url)
		if err != nil {
			return nil, fail(exitUsage, err)
		}
		if o.Consumer != "" {
			return pgpipe.OpenOutbox(ctx, server, o)
		}
		return pgpipe.OpenQueue(ctx, server, o)
	case placeAMQP:
		server, o, err := rabbitmq.ParseURL(p.url)
		if err != nil {
			return nil, fail(exitUsage, err)
		}
		return rabbitmq.OpenSource(ctx, server, o)
	case placeNATS:
		server, o, err := natspipe.ParseURL(p.url)
		if err != nil {
			return nil, fail(exitUsage, err)
		}
		return natspipe.OpenSource(ctx, server, o)
	case placeJobs:
		return a.jobSource(ctx, p.path)
	}
	return nil, usage("HTTP can only be written to")
}

// sinkOptions are what a sink has to know beside its URL.
type sinkOptions struct {
	letters bool          // it takes dead letters, with what they tell
	timeout time.Duration // of HTTP requests
	set     *policy.Set   // has the policies of jobs
}

// openPipeSink opens where transactions go.
func (a *app) openPipeSink(ctx context.Context, p place, o sinkOptions) (sinkCloser, error) {
	if p.kind == placeFile {
		sink, err := p.fileSink(o)
		switch {
		case errors.Is(err, fs.ErrExist):
			return nil, p.failed(fmt.Errorf("%s exists already: add ?append=true or ?replace=true, or name another file", p.path))
		case err != nil:
			return nil, p.failed(notMade(p.path, err))
		}
		return sink, nil
	}
	sink, err := a.sinkAt(ctx, p, o)
	if err != nil {
		return nil, p.failed(err)
	}
	return sink, nil
}

func (p place) fileSink(o sinkOptions) (*file.Sink, error) {
	f := file.SinkOptions{Format: file.Format(p.values.Get("format")), Append: o.letters, Envelope: o.letters}
	if columns := p.values.Get("columns"); columns != "" {
		f.Columns = strings.Split(columns, ",")
	}
	err := p.switches(map[string]*bool{"append": &f.Append, "replace": &f.Replace, "envelope": &f.Envelope, "nosync": &f.NoSync})
	if err != nil {
		return nil, err
	}
	return file.Create(p.path, f)
}

func (a *app) sinkAt(ctx context.Context, p place, o sinkOptions) (sinkCloser, error) {
	switch p.kind {
	case placePostgres:
		server, of, err := pgpipe.ParseURL(p.url)
		if err != nil {
			return nil, fail(exitUsage, err)
		}
		return pgpipe.OpenSink(ctx, server, of)
	case placeAMQP:
		server, of, err := rabbitmq.ParseURL(p.url)
		if err != nil {
			return nil, fail(exitUsage, err)
		}
		return rabbitmq.OpenSink(ctx, server, of)
	case placeNATS:
		server, of, err := natspipe.ParseURL(p.url)
		if err != nil {
			return nil, fail(exitUsage, err)
		}
		return natspipe.OpenSink(ctx, server, of)
	case placeJobs:
		return a.jobSink(ctx, p.path, o.set)
	}
	// The address is the operator's own, so it may be a private one.
	return httpsink.New(p.url, httpsink.Options{AllowPrivateNetworks: true, Timeout: o.timeout})
}

// misused is the usage error of a URL that cannot be read.
func (p place) misused(err error) error {
	if err == nil {
		return nil
	}
	return usage("--%s: %w", p.flag, err)
}

// failed says which flag could not be followed.
func (p place) failed(err error) error {
	code := exitFailed
	if f, ok := errors.AsType[*failure](err); ok {
		code = f.code
	}
	return fail(code, fmt.Errorf("--%s: %w", p.flag, err))
}
