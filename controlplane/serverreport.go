package controlplane

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/netguard"
	"github.com/tenetdev/tenet/internal/wait"
)

const (
	reportTimeout = 10 * time.Second
	lastReport    = time.Second      // that Close waits for the last report
	quietReport   = 30 * time.Second // between reports that say nothing new
)

// report sends reports until ctx ends, and then a last one. A report that the server did not confirm is sent again, under the
// same number, before the next.
func (s *Server) report(ctx context.Context) {
	r := reporter{server: s, session: rand.Text()}
	for wait.For(ctx, early(s.follower.o.ReportInterval)) == nil {
		r.send(ctx, reportTimeout)
	}
	r.send(context.WithoutCancel(ctx), lastReport)
}

type reporter struct {
	server   *Server
	session  string
	sequence int64
	pending  *protocol.Report // not confirmed yet
	said     clientState      // in the last report
	before   protocol.Report  // the last one
	sent     time.Time
}

func (r *reporter) send(ctx context.Context, within time.Duration) {
	if r.pending == nil {
		r.pending = r.next()
	}
	if r.pending == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	f := r.server.follower
	body, _ := json.Marshal(r.pending) // texts and finite numbers
	headers := http.Header{}
	headers.Set("Content-Type", protocol.TypeJSON)
	answer, err := f.getter.send(ctx, request{http.MethodPost, protocol.ReportsPath(f.o.Document), headers, bytes.NewReader(body)})
	if err != nil {
		return // the stream tells about a server that is away
	}
	defer func() { _ = answer.Body.Close() }()
	netguard.Drain(answer, 16<<10, time.Second, cancel)
	switch status := answer.StatusCode; {
	case status < 300:
		f.faults.works(aboutReports)
		r.server.try(ctx, answer.Header.Get(protocol.HeaderTrial))
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return
	default: // the server will never take it
		err := f.getter.fail(http.MethodPost, protocol.ReportsPath(f.o.Document), errRefusedReport, statusOf(answer))
		f.faults.fault(aboutReports, err.Error(), err)
	}
	r.pending, r.sent = nil, time.Now()
}

var errRefusedReport = errors.New("controlplane: the server refuses reports")

// next returns the next report, or nil if there is nothing to say.
func (r *reporter) next() *protocol.Report {
	f := r.server.follower
	f.mu.Lock()
	state, heard := f.state, f.heard
	f.mu.Unlock()
	if heard.IsZero() {
		return nil // the server is not known to be there
	}
	counters := r.server.counter.take()
	now := time.Now()
	mechanisms, pipelines := r.server.counter.mechanisms.report(now), r.server.counter.pipelines.report(now)
	trial := r.server.counter.trial.report()
	same := state == r.said && reflect.DeepEqual(trial, r.before.Trial) && sameMechanisms(mechanisms, r.before.Mechanisms) && samePipelines(pipelines, r.before.Pipelines)
	if len(counters) == 0 && same && time.Since(r.sent) < quietReport {
		return nil
	}
	r.said = state
	r.sequence++
	r.before = protocol.Report{
		Client: f.o.ClientID, Session: r.session, Labels: f.o.Labels, Applied: state.applied, Refused: state.refused,
		Reason: shorten(state.reason, protocol.MaxReason), Staleness: time.Since(heard).Seconds(), Sequence: r.sequence, Counters: counters,
		Mechanisms: mechanisms, Pipelines: pipelines, Trial: trial,
	}
	return &r.before
}

func shorten(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
