package simulate_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/simulate"
)

// plain is a scenario without faults.
const plain = `
version: 1
duration: 10s
services: {a: {}, b: {}}
clients: {c: {service: a, rate: 1}}
`

func TestMistakesHavePlacesAndRemedies(t *testing.T) {
	for name, c := range map[string]struct{ add, want string }{
		"unknown field":      {"services: {a: {concurency: 3}}", `services.a.concurency: unknown field "concurency"; did you mean "concurrency"?`},
		"unknown value":      {"services: {a: {queue: {discipline: lifoo}}}", `services.a.queue.discipline: unknown value "lifoo"; did you mean "lifo"?`},
		"range":              {"faults: {f: {service: a, errors: 2}}", "faults.f.errors: 2 must be at most 1"},
		"cycle":              {"services: {a: {calls: {b: {}}}, b: {calls: {a: {}}}}", "services.a.calls: the calls form a cycle: a, b; remove one of them"},
		"fault without end":  {"faults: {f: {errors: 0.5}}", "faults.f: changes either a service or clients; name one of them"},
		"fault of both":      {"faults: {f: {service: a, client: c, errors: 0.5}}", "faults.f: changes either a service or clients"},
		"load of a service":  {"faults: {f: {service: a, load: 2}}", "faults.f.load: belongs to clients; remove it, or name clients"},
		"errors of clients":  {"faults: {f: {client: c, errors: 1}}", "faults.f: errors, latency and slowdown belong to a service"},
		"share of nothing":   {"faults: {f: {service: a, down: true, share: 0}}", "faults.f.share: 0 must be greater than 0"},
		"share of a load":    {"faults: {f: {client: c, load: 2, share: 0.1}}", "faults.f.share: a load is that of all clients; remove it"},
		"share of capacity":  {"faults: {f: {service: a, slowdown: 2, share: 0.1}}", "faults.f.share: a slowdown hits the whole service; remove it"},
		"shape of an outage": {"faults: {f: {service: a, down: true, shape: ramp}}", "faults.f.shape: the service is down at once; remove it"},
		"fault after end":    {"faults: {f: {service: a, down: true, at: 10s}}", "faults.f.at: not before the end"},
		"warm-up":            {"warmup: 10s", "warmup: not shorter than the duration"},
		"too many samples":   {"interval: 10us", "interval: more than 10000 samples; lengthen it"},
		"too many clients":   {"clients: {c: {service: a, rate: 1, count: 60000}, d: {service: a, rate: 1, count: 60000}}", "clients.d.count: more than 100000 clients in all"},
		"no services":        {"services: {}", "services: there is none; add a service"},
		"policy is checked":  {"policies: {x.Y: {retry: {max_attempts: 0}}}", "policies.x.Y.retry.max_attempts: 0 must be at least 1"},
		"budgets are looked": {"policies: {x.Y: {retry: {budget: {name: none-such}}}}", `unknown budget "none-such"`},
	} {
		t.Run(name, func(t *testing.T) {
			field, _, _ := strings.Cut(c.add, ":")
			var lines []string
			for line := range strings.Lines(plain) {
				if !strings.HasPrefix(line, field+":") {
					lines = append(lines, line)
				}
			}
			_, err := simulate.Parse("s.yaml", []byte(strings.Join(lines, "")+c.add+"\n"))
			refused, ok := errors.AsType[*policyfile.Error](err)
			if !ok || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %s", err, c.want)
			}
			if refused.Faults[0].Line < 2 {
				t.Errorf("fault without a line: %+v", refused.Faults[0])
			}
		})
	}
}

func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(simulate.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("scenario.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text string) error {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	files, err := filepath.Glob(filepath.Join(scenarios, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := validate(read(t, filepath.Base(file))); err != nil && filepath.Base(file) != "budgeted.yaml" {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := validate(everything); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{
		"version: 2", "version: 1\nseeed: 1", "version: 1\nservices: {a: {concurrency: 0}}", "version: 1\nfaults: {f: {shape: square}}",
		"version: 1\nservices: {a: {latency: {mean: fast}}}", "version: 1\nconsumers: {}",
	} {
		if validate(wrong) == nil {
			t.Errorf("the schema accepts %q", wrong)
		}
	}
}
