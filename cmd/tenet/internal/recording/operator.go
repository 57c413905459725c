package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// OperatorFlag adds --audit to a command with which operators change jobs.
func OperatorFlag(cmd *cobra.Command) *string {
	return open.LogFlag(cmd, "audit log that records who does this, before it is done")
}

// Put records an operator's action in the log at url before it happens. Without a URL it does nothing. If it fails, the action
// must not happen.
func Put(ctx context.Context, a *cli.App, url string, o audit.Operation) error {
	if url == "" {
		return nil
	}
	log, closeLog, err := open.Log(ctx, a, url)
	if err != nil {
		return err
	}
	return errors.Join(Record(ctx, log, o), closeLog())
}

// Record records an operator's action before it happens. If it fails, the action must not happen.
func Record(ctx context.Context, log *audit.Log, o audit.Operation) error {
	o.Actor = actor()
	if err := log.OperatorAction(ctx, o); err != nil {
		return fmt.Errorf("nothing was done, because the action could not be recorded: %w", err)
	}
	return nil
}

// The values of attributes have a maximum length, so the IDs of many jobs are spread over several.
const (
	idsTogether = 200
	mostIDs     = 10_000
)

// OnJobs describes an action on the n jobs that a filter selects.
func OnJobs(action string, f job.Filter, n int) (audit.Operation, error) {
	o := audit.Operation{Action: action, Attributes: map[string]string{"jobs": strconv.Itoa(n)}}
	if len(f.IDs) > mostIDs {
		return o, cli.Usagef("%d IDs are too many to record; name at most %d, or select jobs by filters", len(f.IDs), mostIDs)
	}
	for name, value := range map[string]string{
		"queue": f.Queue, "type": f.Type, "error": f.ErrorContains, "created_before": Instant(f.CreatedBefore), "created_after": Instant(f.CreatedAfter), "filter": withoutPayloads(f.Terms).String(),
	} {
		if value != "" {
			o.Attributes[name] = value
		}
	}
	if len(f.IDs) == 1 {
		o.WorkID = f.IDs[0]
		return o, nil
	}
	part := 0
	for ids := range slices.Chunk(f.IDs, idsTogether) {
		part++
		o.Attributes["ids_"+strconv.Itoa(part)] = strings.Join(ids, " ")
	}
	return o, nil
}

// withoutPayloads redacts the values of payloads, which audit logs never contain.
func withoutPayloads(terms filter.Terms) filter.Terms {
	terms = slices.Clone(terms)
	for i := range terms {
		if terms[i].Field == job.FieldPayload {
			terms[i].Values = filter.Exactly("[redacted]")
		}
	}
	return terms
}

// OnRecords describes an action on jobs that have been read.
func OnRecords(action string, records []*job.Record) (audit.Operation, error) {
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	o, err := OnJobs(action, job.Filter{IDs: ids}, len(ids))
	if len(records) == 1 {
		r := records[0]
		o.Key, o.From, o.Attributes["queue"] = policy.JobKey(r.Queue, r.Type), string(r.State), r.Queue
	}
	return o, err
}

// Instant formats a time as audit events do. Zero is "".
func Instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// actor returns the user and host that run this program.
func actor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
