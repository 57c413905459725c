package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/rollout"
)

func report() protocol.Report {
	var c rollout.Counters
	c.Observe(3*time.Millisecond, 1, true)
	return protocol.Report{
		Client: "web-1", Session: "s", Labels: map[string]string{"region": "eu"}, Applied: 6, Refused: 7, Reason: "unknown field",
		Staleness: 1.5, Sequence: 1, Counters: []protocol.RevisionCounters{{Revision: 6, Counters: c}},
		Mechanisms: []protocol.Mechanism{{Kind: protocol.Breaker, Name: "users.Get", State: "open", Seconds: 2.5, Openings: 1, Refusals: 7}},
		Pipelines:  []protocol.Pipeline{{Kind: protocol.Consumer, Name: "orders", Source: "rabbitmq", Seconds: 9, Rate: 2.5, Fetched: 40, Success: 30, InFlight: 10}},
	}
}

func TestS3AReportSurvivesTheWire(t *testing.T) {
	r := report()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	read, err := protocol.ReadReport(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, *read, cmp.AllowUnexported(rollout.Sketch{})); diff != "" {
		t.Error(diff)
	}
}

func TestS9ReportsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, change := range map[string]func(*protocol.Report){
		"no client":         func(r *protocol.Report) { r.Client = "" },
		"long client":       func(r *protocol.Report) { r.Client = long },
		"control character": func(r *protocol.Report) { r.Client = "a\nb" },
		"label":             func(r *protocol.Report) { r.Labels["region"] = long },
		"session":           func(r *protocol.Report) { r.Session = long },
		"reason":            func(r *protocol.Report) { r.Reason = long },
		"sequence":          func(r *protocol.Report) { r.Sequence = 0 },
		"staleness":         func(r *protocol.Report) { r.Staleness = -1 },
		"negative calls":    func(r *protocol.Report) { r.Counters[0].Counters.Calls = -1 },
		"too many failures": func(r *protocol.Report) { r.Counters[0].Counters.Failures = 9 },
		"own spread":        func(r *protocol.Report) { r.Counters[0].Counters.Spread.Clients = 9 },
		"many mechanisms":   func(r *protocol.Report) { r.Mechanisms = make([]protocol.Mechanism, protocol.MaxMechanisms+1) },
		"unknown kind":      func(r *protocol.Report) { r.Mechanisms[0].Kind = "fuse" },
		"unknown state":     func(r *protocol.Report) { r.Mechanisms[0].State = "exhausted" },
		"long name":         func(r *protocol.Report) { r.Mechanisms[0].Name = long },
		"no name":           func(r *protocol.Report) { r.Mechanisms[0].Name = "" },
		"negative refusals": func(r *protocol.Report) { r.Mechanisms[0].Refusals = -1 },
		"negative seconds":  func(r *protocol.Report) { r.Mechanisms[0].Seconds = -1 },
		"many pipelines":    func(r *protocol.Report) { r.Pipelines = make([]protocol.Pipeline, protocol.MaxPipelines+1) },
		"unknown pipeline":  func(r *protocol.Report) { r.Pipelines[0].Kind = "oil" },
		"negative fetched":  func(r *protocol.Report) { r.Pipelines[0].Fetched = -1 },
		"negative rate":     func(r *protocol.Report) { r.Pipelines[0].Rate = -1 },
		"odd source":        func(r *protocol.Report) { r.Pipelines[0].Source = "a\nb" },
		"many revisions":    func(r *protocol.Report) { r.Counters = make([]protocol.RevisionCounters, 99) },
	} {
		r := report()
		change(&r)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := protocol.ReadReport(data); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := protocol.ReadReport([]byte(`{"client":"a","session":"","applied":0,"staleness":0,"sequence":1}`)); err != nil {
		t.Errorf("a report of an older client: %v", err)
	}
	if _, err := protocol.ReadReport([]byte(`{"client":"a","session":"","applied":0,"staleness":0,"sequence":1,"more":1}`)); err == nil {
		t.Error("an unknown field was accepted")
	}
}

func TestLabelsSurviveTheHeader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "labels")
		read, err := protocol.ParseLabels(protocol.FormatLabels(labels))
		if err != nil {
			t.Fatal(err)
		}
		if len(labels) != len(read) || len(labels) > 0 && !cmp.Equal(labels, read) {
			t.Fatalf("%v became %v", labels, read)
		}
	})
	if _, err := protocol.ParseLabels("a=1&a=2"); err == nil {
		t.Error("a label given twice was accepted")
	}
}

func TestS4WaitIsBounded(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "wait=10": 10 * time.Second, "respond-async, wait=3": 3 * time.Second, "wait=100000": protocol.MaxWait, "wait=-1": 0, "wait=x": 0,
	} {
		if got := protocol.ParseWait(header); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
