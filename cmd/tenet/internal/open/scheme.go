package open

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/address"
)

// Use is the purpose that a URL is opened for.
type Use int

// The uses of URLs.
const (
	UseJobs    Use = iota
	UseWorker      // the jobs of a worker, which may be in memory
	UseRecords     // idempotency records
	UseLog         // an audit log
	UseLimits      // limits that processes share
	UseSource
	UseSink
	uses // the number of uses
)

// noun returns the word for the target of a use's URL in errors.
func (u Use) noun() string {
	return [uses]string{UseJobs: "store", UseWorker: "store", UseRecords: "store", UseLog: "log", UseLimits: "store of limits", UseSource: "source", UseSink: "sink"}[u]
}

// Forms lists the URLs that the use accepts, for help and errors.
func (u Use) Forms() string {
	var list []string
	for _, s := range schemes() {
		if s.forms[u] != "" {
			list = append(list, s.forms[u])
		}
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

// The schemes that commands accept. The table below has their aliases.
const (
	schemeFile     = "file"
	schemeSQLite   = "sqlite"
	schemePostgres = "postgres"
	schemeNATS     = "nats"
	schemeAMQP     = "amqp"
	schemeJobs     = "jobs"
	schemeHTTP     = "http"
	schemeMemory   = "memory"
	schemeRedis    = "redis"
)

// texts holds a text for each use, or "".
type texts [uses]string

// scheme is a row of the table of schemes.
type scheme struct {
	names   []string                    // the first is the canonical one
	forms   texts                       // how to write it, for each use that accepts the scheme
	refused texts                       // why a use does not accept it; %s lists the URLs that it does accept
	parse   func(location) (end, error) // a source or sink; nil where the scheme is neither
}

// schemes returns the table of schemes and their uses, in the order in which help and errors list them. Kafka and SQS, and
// Redis except for limits, are refused by name.
func schemes() []scheme {
	const (
		files   = "file:PATH.jsonl, file:PATH.csv"
		lite    = "sqlite:PATH"
		server  = "postgres://…"
		table   = "postgres://…?table=…"
		stream  = "nats://…/STREAM"
		queue   = "amqp://…/QUEUE"
		jobs    = "jobs:STORE-URL?queue=…"
		missing = " is not supported by this build; write %s"
	)
	return []scheme{
		{
			names: []string{schemeFile}, parse: parseFile,
			forms: texts{UseLog: "file:PATH", UseSource: files, UseSink: files},
		},
		{
			names: []string{schemeSQLite},
			forms: texts{UseJobs: lite, UseWorker: lite, UseRecords: lite, UseLog: lite, UseLimits: lite},
		},
		{
			names: []string{schemePostgres, "postgresql"}, parse: parseTable,
			forms: texts{UseJobs: server, UseWorker: server, UseRecords: server, UseLog: server, UseLimits: server, UseSource: table, UseSink: table},
		},
		{
			names: []string{schemeNATS, "tls"}, parse: parseStream,
			forms: texts{UseRecords: "nats://…", UseLog: "nats://…", UseSource: stream, UseSink: stream},
		},
		{
			names: []string{schemeAMQP, "amqps"}, parse: parseQueue,
			forms: texts{UseSource: queue, UseSink: queue},
		},
		{
			names: []string{schemeJobs}, parse: parseJobs,
			forms: texts{UseSource: jobs, UseSink: jobs},
		},
		{
			names: []string{schemeHTTP, "https"}, parse: parseHTTP,
			forms: texts{UseSink: "http://…"}, refused: texts{UseSource: "HTTP can only be written to; write %s"},
		},
		{
			names: []string{schemeMemory}, forms: texts{UseWorker: "memory:"},
			refused: texts{
				UseJobs:    "a store in memory ends with this command; only a worker can use it. Write %s",
				UseRecords: "records in memory are lost when this program ends; write %s",
				UseLimits:  "limits in memory are not shared by processes; write %s",
				UseLog:     "an audit log in memory is lost when this program ends; write %s",
			},
		},
		{
			names: []string{schemeRedis, "rediss"}, forms: texts{UseLimits: "redis://…"},
			refused: texts{
				UseJobs: "Redis is not supported by this build; use %s", UseWorker: "Redis is not supported by this build; use %s",
				UseRecords: "Redis" + missing, UseLog: "Redis" + missing, UseSource: "Redis" + missing, UseSink: "Redis" + missing,
			},
		},
		{names: []string{"kafka"}, refused: texts{UseSource: "Kafka" + missing, UseSink: "Kafka" + missing}},
		{names: []string{"sqs"}, refused: texts{UseSource: "SQS" + missing, UseSink: "SQS" + missing}},
	}
}

func schemeOf(name string) (scheme, bool) {
	list := schemes()
	i := slices.IndexFunc(list, func(s scheme) bool { return slices.Contains(s.names, name) })
	if i < 0 {
		return scheme{}, false
	}
	return list[i], true
}

// Ref is a URL that names a store, log, source or sink.
type Ref struct {
	Flag string // the flag that gave it; empty for an argument
	URL  string
	Use  Use
}

// location is a URL whose scheme has been accepted.
type location struct {
	Ref
	scheme string
	path   string // of a file, without its parameters; otherwise the rest of the URL
}

// fail returns a usage error about the URL. part is the part of the URL that cannot hold a password.
func (r Ref) fail(part, format string, args ...any) error {
	if r.Flag != "" {
		part = strings.TrimSpace("--" + r.Flag + " " + part)
	}
	err := fmt.Errorf(format, args...)
	if part == "" {
		return cli.Usagef("%w", err)
	}
	return cli.Usagef("%s: %w", part, err)
}

// locate parses the scheme and the path of a URL. Errors show only the scheme, because the rest may hold a password.
func (r Ref) locate() (location, scheme, error) {
	at := location{Ref: r}
	if err := address.Check(r.URL); err != nil {
		return at, scheme{}, r.fail("", "%w", err)
	}
	name, rest, ok := strings.Cut(r.URL, ":")
	switch {
	case r.URL == "" && r.Flag == "store":
		return at, scheme{}, cli.Usagef("no store given; write --store %s, or set TENET_STORE", r.Use.Forms())
	case !ok && r.Flag != "":
		return at, scheme{}, cli.Usagef("--%s is not the URL of a %s; write %s", r.Flag, r.Use.noun(), r.Use.Forms())
	case !ok:
		return at, scheme{}, cli.Usagef("the URL of the %s is missing; write %s", r.Use.noun(), r.Use.Forms())
	}
	s, known := schemeOf(name)
	switch {
	case known && s.forms[r.Use] != "":
	case known && s.refused[r.Use] != "":
		return at, s, r.fail(name+":…", s.refused[r.Use], r.Use.Forms())
	default:
		return at, s, r.fail(name+":…", "unknown kind of %s; write %s", r.Use.noun(), r.Use.Forms())
	}
	at.scheme, at.path = s.names[0], rest
	if at.scheme == schemeFile || at.scheme == schemeSQLite {
		path, _, _ := strings.Cut(rest, "?")
		if at.scheme == schemeSQLite || r.Use == UseLog {
			path = rest
		}
		if at.path = strings.TrimPrefix(path, "//"); at.path == "" {
			return at, s, r.fail(r.URL, "the path is missing; write %s", r.Use.Forms())
		}
		if at.scheme == schemeSQLite && strings.Contains(at.path, "?") {
			return at, s, r.fail(name+":…", "it takes no parameters, and its path no ?; write %s", r.Use.Forms())
		}
	}
	return at, s, nil
}
