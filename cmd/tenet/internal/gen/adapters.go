package main

import (
	"fmt"
	"reflect"
	"strings"

	execjob "github.com/tenetdev/tenet/adapter/exec"
	"github.com/tenetdev/tenet/adapter/file"
	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/adapter/http/httpjob"
	"github.com/tenetdev/tenet/adapter/http/httpsink"
	"github.com/tenetdev/tenet/adapter/jobs"
	"github.com/tenetdev/tenet/adapter/memory"
	tenetnats "github.com/tenetdev/tenet/adapter/nats"
	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/adapter/nats/natspolicy"
	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/otel"
	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	prom "github.com/tenetdev/tenet/adapter/prometheus"
	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/adapter/redis"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/policysql"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/sharing"
)

// contracts are the columns of the table. An adapter has a contract if one of its types implements the interface.
var contracts = []struct {
	title string
	is    reflect.Type
}{
	{"jobs", reflect.TypeFor[job.Store]()},
	{"idempotency", reflect.TypeFor[idempotency.Store]()},
	{"audit", reflect.TypeFor[audit.Sink]()},
	{"policies", reflect.TypeFor[controlplane.DocumentStore]()},
	{"control plane", reflect.TypeFor[policystore.Store]()},
	{"shared limits", reflect.TypeFor[sharing.Store]()},
	{"source", reflect.TypeFor[pipeline.Source]()},
	{"sink", reflect.TypeFor[pipeline.Sink]()},
	{"observer", reflect.TypeFor[observe.Observer]()},
}

// adapter is a row of the table. Features that are not types with a contract are described in words, next to a value that would
// not compile without the feature.
type adapter struct {
	folder string
	types  []any
	calls  string
	other  string
	uses   []any
}

var adapters = []adapter{
	{folder: "memory", types: []any{(*memory.Jobs)(nil), (*memory.Idempotency)(nil), (*memory.Policies)(nil), (*memory.Limits)(nil)}},
	{
		folder: "file", types: []any{(*file.Source)(nil), (*file.Sink)(nil), (*audit.FileSink)(nil)},
		other: "policies by `controlplane.File`", uses: []any{(*controlplane.File)(nil)},
	},
	{
		folder: "http", types: []any{(*httpsink.Sink)(nil)}, calls: "client, classes",
		other: "limits of a server, job type `http`, idempotent handlers, policies by `controlplane.Remote`",
		uses:  []any{(*tenethttp.Client)(nil), tenethttp.Shed, httpjob.Register, tenethttp.Idempotent, (*controlplane.Remote)(nil)},
	},
	{folder: "exec", other: "job type `exec`", uses: []any{execjob.Register}},
	{folder: "jobs", types: []any{(*jobs.Source)(nil), (*jobs.Sink)(nil)}},
	{folder: "grpc", calls: "client, classes", other: "limits of a server"}, // has only functions; this command does not import its SDK
	{folder: "sqlite", types: []any{(*sqlite.Jobs)(nil), (*sqlite.Idempotency)(nil), (*sqlite.Audit)(nil), (*policysql.Store)(nil), (*sqlite.Limits)(nil)}, calls: "classes", uses: []any{sqlite.Classes}},
	{
		folder: "postgres", types: []any{(*postgres.Jobs)(nil), (*postgres.Idempotency)(nil), (*postgres.Audit)(nil), (*policysql.Store)(nil), (*postgres.Limits)(nil), (*pgpipe.Queue)(nil), (*pgpipe.Outbox)(nil), (*pgpipe.Sink)(nil)},
		calls: "classes", uses: []any{postgres.Classes},
	},
	{
		folder: "nats", types: []any{(*natsstore.Idempotency)(nil), (*natsstore.Audit)(nil), (*natspolicy.Document)(nil), (*natspipe.Source)(nil), (*natspipe.Sink)(nil)},
		calls: "client, classes", uses: []any{(*tenetnats.Client)(nil), tenetnats.Classes},
	},
	{folder: "redis", types: []any{(*redis.Limits)(nil)}, calls: "classes", uses: []any{redis.Classes}},
	{folder: "rabbitmq", types: []any{(*rabbitmq.Source)(nil), (*rabbitmq.Sink)(nil)}},
	{folder: "otel", types: []any{(*otel.Observer)(nil)}},
	{folder: "prometheus", types: []any{(*prom.Observer)(nil)}},
}

// adapterTable is the page of adapters.
func adapterTable() []byte {
	var b strings.Builder
	b.WriteString("| adapter |")
	for _, c := range contracts {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString(" calls | besides |\n|---|" + strings.Repeat("---|", len(contracts)+2) + "\n")
	for _, a := range adapters {
		fmt.Fprintf(&b, "| `adapter/%s` |", a.folder)
		var cells []string
		for _, c := range contracts {
			cell := ""
			for _, value := range a.types {
				if reflect.TypeOf(value).Implements(c.is) {
					cell = "x"
				}
			}
			cells = append(cells, cell)
		}
		for _, cell := range append(cells, a.calls, a.other) {
			b.WriteString(strings.TrimRight(" "+cell, " ") + " |")
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}
