package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/simulate"
)

const scenarioText = `version: 1
duration: 1m
services: {cards: {errors: 0.5}}
clients: {shop: {service: cards, policy: pay.Charge, rate: 100}}
`

func TestT2ARevisionIsSimulated(t *testing.T) {
	e := newEnv(t, nil)
	const path = "/v1/documents/pay"
	for _, text := range []string{"{max_attempts: 1}", "{max_attempts: 3, backoff: 1ms}"} {
		body := api.Publish{Body: "version: 1\npolicies: {pay.Charge: {retry: " + text + "}}\n"}
		if r := e.do(call{method: http.MethodPost, path: path + "/revisions", body: body, header: map[string]string{"If-Match": "*"}}); r.status != 200 {
			t.Fatal(r.body)
		}
	}
	simulated := func(revision, scenario string, seed uint64) reply {
		return e.do(call{method: http.MethodPost, path: path + "/revisions/" + revision + "/simulation", body: api.Simulation{Scenario: scenario, Seed: seed}})
	}
	for revision, want := range map[string]float64{"1": 1, "2": 1.75} { // 1 + 1/2 + 1/4
		var report simulate.Report
		simulated(revision, scenarioText, 0).into(t, &report)
		if got := report.Clients[0].AttemptsPerCall; got < want-0.05 || got > want+0.05 {
			t.Errorf("revision %s: %g attempts per call, want %g", revision, got, want)
		}
	}
	if first, again := simulated("2", scenarioText, 7), simulated("2", scenarioText, 7); first.body != again.body {
		t.Error("the same seed gives different reports")
	}
	for name, c := range map[string]struct {
		revision, scenario string
		status             int
		want               string
	}{
		"no such revision":  {"9", scenarioText, 404, "list what exists"},
		"a fault":           {"1", strings.Replace(scenarioText, "cards: {", "cards: {errrors: 1, ", 1), 422, "errors"},
		"an unknown policy": {"1", strings.Replace(scenarioText, "pay.Charge", "pay.Refund", 1), 422, "pay.Refund"},
		"too much":          {"1", strings.NewReplacer("rate: 100", "rate: 100000", "errors: 0.5", "latency: {mean: 10s}").Replace(scenarioText), 422, "too large for a server"},
		"too many clients":  {"1", strings.Replace(scenarioText, "rate: 100", "rate: 1, count: 50000", 1), 422, "too large for a server"},
	} {
		if r := simulated(c.revision, c.scenario, 0); r.status != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}
