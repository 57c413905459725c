package ui

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/server/api"
)

// componentsPage shows the parts of which pages are made.
func componentsPage() *page {
	at := func(second float64) time.Time {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(second * float64(time.Second)))
	}
	return &page{path: "components", title: "Components", file: "components-page", still: true, load: func(*request) (any, error) {
		line := func(values ...float64) (list []*float64) {
			for _, v := range values {
				list = append(list, &v)
			}
			return list
		}
		return map[string]any{
			"States": job.States(),
			"Tree":   tree(json.RawMessage(`{"order": {"id": 42, "lines": ["pen", "ink"]}, "paid": true}`)),
			"Chart": chart{Title: "Jobs", Unit: "rate", X: []float64{1, 2, 3, 4}, Series: []series{
				{"completed", 1, line(4, 6, 5, 7), "7/s"}, {"dead", 2, line(0, 0, 1, 0), "0/s"},
			}},
			"Axis": newAxis(&api.Job{State: job.Completed, CreatedAt: at(0)}, []api.Attempt{
				{Attempt: 1, Outcome: job.AttemptFailed, Reason: "attempt_failed", Started: at(0.2), Finished: at(0.9)},
				{Attempt: 2, Outcome: job.AttemptLost, Reason: "lease_lost", Started: at(3), Finished: at(33)},
				{Attempt: 3, Outcome: job.AttemptCompleted, Reason: "success", Started: at(34), Finished: at(34.5)},
			}, scaleEven),
			"Selection": selection{Total: 12, Groups: []selectionGroup{{"mail", "email:send", job.Dead, 12}}},
			"Redrive":   newRedriveView(api.Redrive{RedriveCounts: job.RedriveCounts{Total: 100, Released: 70, Completed: 50, Dead: 3}, Pending: 17, Left: 30}),
			"Graph": drawGraph([]box{
				{Title: "extract", Note: "completed · extract", Href: "#graph", State: "completed"}, {Title: "load", Note: "dead · load", Href: "#graph", State: "dead", layer: 1},
				{Title: "check", Note: "running · check", Href: "#graph", State: "running", layer: 1}, {Title: "report", Note: "waiting · report", Href: "#graph", State: "waiting", Current: true, layer: 2},
			}, [][2]int{{0, 1}, {0, 2}, {1, 3}, {2, 3}, {0, 3}}),
			"Brief":      "published sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
			"Queue":      queueRow{Name: "mail", Escaped: "mail", Paused: true, Reason: "the provider is down", Actor: "token:ops"},
			"Record":     map[string]any{"Unknown": false, "State": "in_flight", "Lapsed": true},
			"Tabs":       []tab{{"Rules", "#tabs", true}, {"Text", "#tabs", false}},
			"Difference": newDifference(api.Difference{Fields: []policyfile.Change{{Path: "policies.users.Get.retry.max_attempts", From: json.RawMessage("3"), To: json.RawMessage("5")}}}),
			"Course":     course{Spans: []span{{Text: "1 h", Path: "#course", Current: true}, {Text: "24 h", Path: "#course"}}},
			"Diff":       diffLines("--- revision 1\n+++ revision 2\n@@ -1,2 +1,2 @@\n version: 1\n-max_attempts: 3\n+max_attempts: 5\n"),
		}, nil
	}}
}

// diffLine is a line of a unified diff.
type diffLine struct{ Class, Text string }

func diffLines(text string) (list []diffLine) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		d := diffLine{"same", line}
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "@@"):
			d.Class = "place"
		case strings.HasPrefix(line, "+"):
			d.Class = "added"
		case strings.HasPrefix(line, "-"):
			d.Class = "removed"
		}
		list = append(list, d)
	}
	return list
}
