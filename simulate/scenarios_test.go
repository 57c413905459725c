package simulate_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/simulate"
)

const scenarios = "../examples/scenarios"

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(scenarios, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// success returns the share of the calls between two times, in seconds, that succeeded.
func success(r *simulate.Report, client int, from, to float64) float64 {
	var succeeded, ended int64
	for i, s := range r.Clients[client].Series {
		if at := float64(i) * r.Interval; at >= from && at < to {
			succeeded += s.Succeeded
			ended += s.Succeeded + s.Failed
		}
	}
	return float64(succeeded) / float64(ended)
}

// arrived returns the requests per second that a service got between two times.
func arrived(r *simulate.Report, service int, from, to float64) float64 {
	var requests int64
	for i, s := range r.Services[service].Series {
		if at := float64(i) * r.Interval; at >= from && at < to {
			requests += s.Requests
		}
	}
	return float64(requests) / (to - from)
}

// within fails unless low ≤ got ≤ high.
func within(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if !(got >= low && got <= high) {
		t.Errorf("%s is %.4g, want %.4g to %.4g", what, got, low, high)
	}
}

func TestRetryStormOutlivesItsCauseUnlessBudgeted(t *testing.T) {
	storm := run(t, read(t, "retry-storm.yaml"), simulate.Options{})
	within(t, "success before", success(storm, 0, 0, 60), 0.999, 1)
	within(t, "success long after", success(storm, 0, 120, 180), 0, 0.1)
	within(t, "requests per second after", arrived(storm, 0, 120, 180), 1300, 1450)

	d, err := policyfile.Parse("budgeted.yaml", []byte(read(t, "budgeted.yaml")), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	budgeted := run(t, read(t, "retry-storm.yaml"), simulate.Options{Policies: d.Set})
	within(t, "success with a budget before", success(budgeted, 0, 0, 60), 0.999, 1)
	within(t, "success with a budget after", success(budgeted, 0, 120, 180), 0.999, 1)
}

func TestMetastableFailureNeedsTheRetry(t *testing.T) {
	text := read(t, "metastable.yaml")
	failed := run(t, text, simulate.Options{})
	within(t, "success before", success(failed, 0, 0, 60), 0.999, 1)
	within(t, "success after", success(failed, 0, 200, 300), 0, 0.001)
	without := run(t, strings.Replace(text, "max_attempts: 2", "max_attempts: 1", 1), simulate.Options{})
	within(t, "success without a retry", success(without, 0, 240, 300), 0.99, 1)
}

func TestHerdComesWithTheRecovery(t *testing.T) {
	r := run(t, read(t, "herd.yaml"), simulate.Options{})
	within(t, "requests per second before", arrived(r, 0, 0, 60), 280, 320)
	within(t, "requests per second after", arrived(r, 0, 120, 150), 850, 950)
	within(t, "peak queue", float64(r.Services[0].PeakQueue), 1000, 10_000)
	within(t, "queue at the end", float64(r.Services[0].Series[119].Queue), 0, 0)
}

func TestSlowDependencyTakesItsCallerDown(t *testing.T) {
	text := read(t, "slow-dependency.yaml")
	r := run(t, text, simulate.Options{})
	within(t, "success before", success(r, 1, 0, 80), 0.999, 1)
	within(t, "success during", success(r, 1, 90, 140), 0, 0.05)
	within(t, "success after", success(r, 1, 160, 240), 0.999, 1)
	limited := run(t, strings.Replace(text, "timeout: 5s}", "timeout: 5s}, limit: {concurrency: 40}", 1), simulate.Options{})
	within(t, "peak queue with a limit", float64(limited.Services[0].PeakQueue), 0, 300)
	if limited.Clients[0].Reasons["concurrency_limited"] == 0 {
		t.Errorf("the limit refused nothing: %v", limited.Clients[0].Reasons)
	}
}

func TestHedgesKeepADegradedServiceSlowUnlessBounded(t *testing.T) {
	text := strings.Replace(read(t, "hedging.yaml"), "duration: 4m", "duration: 150s", 1)
	r := run(t, text, simulate.Options{})
	within(t, "success before", success(r, 0, 0, 90), 0.999, 1)
	within(t, "requests per second before", arrived(r, 0, 0, 90), 1210, 1400)
	within(t, "requests per second long after", arrived(r, 0, 130, 150), 2400, 3700)
	bounded := run(t, strings.Replace(text, "max_hedges: 2", "max_hedges: 2, max_extra_load: 0.05", 1), simulate.Options{})
	within(t, "requests per second with a bound", arrived(bounded, 0, 130, 150), 1150, 1300)
}

func TestBadRolloutShowsInAttemptsFirst(t *testing.T) {
	r := run(t, read(t, "bad-rollout.yaml"), simulate.Options{})
	within(t, "success at 10 % bad servers", success(r, 0, 62, 68), 0.97, 1)
	within(t, "requests per second at 10 % bad servers", arrived(r, 0, 62, 70)/arrived(r, 0, 20, 60), 1.03, 1.25)
	within(t, "requests per second at the worst", arrived(r, 0, 110, 130)/arrived(r, 0, 20, 60), 1, 1.25)
	within(t, "success after", success(r, 0, 200, 300), 0.999, 1)
}

func TestEveryScenarioIsTested(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(scenarios, "*.yaml"))
	if err != nil || len(files) != 8 {
		t.Errorf("%v: %v; add a test for a new one", files, err)
	}
}

// The figures and pictures of docs/choosing-a-policy.md are those of its command.
func TestT2TheBudgetDecidesInTheDocumentedChoice(t *testing.T) {
	scenario := read(t, "../choosing/scenario.yaml")
	shown, err := os.ReadFile("../docs/choosing-a-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"three", "five", "three-budget", "five-budget"} {
		d, err := policyfile.Parse(name, []byte(read(t, "../choosing/"+name+".yaml")), policyfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, scenario, simulate.Options{Policies: d.Set})
		low, high := 0.0, 0.3
		if strings.HasSuffix(name, "budget") {
			low, high = 0.75, 0.85
		}
		within(t, name+": success", r.Clients[0].Success, low, high)
		if runtime.GOARCH != "amd64" { // others may fuse operations
			continue
		}
		if row := r.Tables()[0].Rows[0]; !strings.Contains(string(shown), "| "+row[3]+" | "+row[4]+" |") {
			t.Errorf("%s: the table has no %s and %s", name, row[3], row[4])
		}
		picture, err := os.ReadFile("../docs/choosing/" + name + ".svg")
		if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(name, "three") {
			continue
		}
		var drawn bytes.Buffer
		if err := errors.Join(err, r.WriteSVG(&drawn)); err != nil || !bytes.Equal(picture, drawn.Bytes()) {
			t.Errorf("%s: the picture is out of date, or %v; draw it with the command of docs/choosing-a-policy.md", name, err)
		}
	}
}
