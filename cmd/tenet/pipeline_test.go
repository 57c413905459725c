//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/cmd/tenet/internal/pipelines"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/internal/testrabbit"
)

const pipelineDocument = `version: 1
consumers:
  orders:
    loop: {batch: {size: 10}}
    steps: {process: {retry: {max_attempts: 3, backoff: 0.01}}}
producers:
  orders: {loop: {batch: {size: 10}}}
`

// inFolder writes files into a new folder and makes it the working directory.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		writeFile(t, name, text)
	}
}

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestL3AnHTTPTaskPostsThePayload: the ID is the idempotency key, the task retries busy servers, refusals are final, and the
// response is dispatched.
func TestL3AnHTTPTaskPostsThePayload(t *testing.T) {
	var mu sync.Mutex
	calls := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		calls[key]++
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method != http.MethodPost || !bytes.Contains(body, []byte(key)):
			t.Errorf("%s %s with %s", r.Method, key, body)
		case key == "busy" && calls[key] == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case key == "refused":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case key == "quiet":
			w.WriteHeader(http.StatusNoContent)
		case key == "long":
			fmt.Fprint(w, strings.Repeat("x", pipelines.MaxResult+1))
		default:
			fmt.Fprintf(w, "{\"answer\":%q}\n", key)
		}
	}))
	defer server.Close()
	inFolder(t, map[string]string{
		"policy.yaml": pipelineDocument, "in.jsonl": `{"id":"fine"}` + "\n" + `{"id":"busy"}` + "\n" + `{"id":"refused"}` + "\n" + `{"id":"quiet"}` + "\n" + `{"id":"long"}` + "\n",
	})
	code, out, errs := runIn(t.Context(), nil, "", "consume", "--policy", "policy.yaml", "orders", "--source", "file:in.jsonl",
		"--task", server.URL, "--sink", "file:out.jsonl", "--dead-letter", "file:dead.jsonl", "-o", "jsonl")
	if code != 0 || !strings.Contains(out, `"success":3,"exception":2`) {
		t.Fatalf("%d: %s%s", code, out, errs)
	}
	if got, want := read(t, "out.jsonl"), "{\"answer\":\"fine\"}\n{\"answer\":\"busy\"}\n"; got != want {
		t.Errorf("passed on %q", got)
	}
	dead := read(t, "dead.jsonl")
	if !strings.Contains(dead, "422 Unprocessable Entity") || !strings.Contains(dead, "more than 10 MiB") {
		t.Errorf("dead letters: %s", dead)
	}
	if calls["busy"] != 2 || calls["refused"] != 1 || calls["long"] != 1 {
		t.Errorf("calls: %v", calls)
	}
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPipelinesOnPostgreSQL moves an input into a queue, the queue through a command into an outbox, and the outbox into a
// file.
func TestPipelinesOnPostgreSQL(t *testing.T) {
	server, err := testpg.Start(testpg.NoSync)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	const tables = `CREATE TABLE queue (id text PRIMARY KEY, payload jsonb NOT NULL, meta jsonb,
			available_at timestamptz NOT NULL DEFAULT now(), deliveries integer NOT NULL DEFAULT 0);
		CREATE INDEX ON queue (available_at, id);
		CREATE TABLE outbox (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
			id text NOT NULL UNIQUE, payload text NOT NULL);
		CREATE INDEX ON outbox (tx)`
	if _, err := c.Exec(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	inFolder(t, map[string]string{"policy.yaml": pipelineDocument, "in.jsonl": `{"id": "a"}` + "\n" + `{"id": "b"}` + "\n" + `{"id": "c"}` + "\n"})
	queue, outbox := server.URL()+"&table=queue&metadata=meta", server.URL()+"&table=outbox"
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"produce", "orders", "--input", "file:in.jsonl", "--sink", queue}, "3 success"},
		{[]string{"produce", "orders", "--input", "file:in.jsonl?forget=true", "--sink", queue}, "3 success"}, // already stored
		{[]string{"consume", "orders", "--source", queue, "--task", `exec:if [ $TENET_TRANSACTION_ID = b ]; then exit 3; fi; tr a-z A-Z`,
			"--retry-exit", "1", "--sink", outbox, "--dead-letter", "file:dead.jsonl"}, "2 success, 1 exception"},
		{[]string{"consume", "orders", "--source", queue, "--task", "exec:false"}, "0 fetched"},
		{[]string{"consume", "orders", "--source", outbox + "&consumer=copy", "--task", "sink", "--sink", "file:copy.jsonl"}, "2 success"},
		{[]string{"consume", "orders", "--source", outbox + "&consumer=copy", "--task", "exec:false"}, "0 fetched"},
		{[]string{"consume", "orders", "--source", "file:dead.jsonl?envelope=true", "--task", "sink", "--sink", queue}, "1 success"},
		{[]string{"produce", "orders", "--input", queue, "--sink", "file:rest.jsonl"}, "1 success"},
		{[]string{"consume", "orders", "--source", queue, "--task", "exec:false"}, "0 fetched"},
	} {
		code, out, errs := runIn(t.Context(), nil, "", append(step.args, "--policy", "policy.yaml")...)
		if code != 0 || !strings.Contains(out, step.want) {
			t.Fatalf("tenet %v: %d, want %s\n%s%s", step.args, code, step.want, out, errs)
		}
	}
	if got := read(t, "copy.jsonl"); got != "{\"ID\": \"A\"}\n{\"ID\": \"C\"}\n" {
		t.Errorf("copied %q", got)
	}
	if got := read(t, "rest.jsonl"); got != "{\"id\": \"b\"}\n" {
		t.Errorf("the queue still contains %q", got)
	}
	code, _, errs := runIn(t.Context(), nil, "", "consume", "orders", "--policy", "policy.yaml", "--source", server.URL()+"&table=nothing", "--task", "exec:true")
	if code != 1 || !strings.Contains(errs, "--source: postgres: table nothing") {
		t.Errorf("a missing table: %d, %s", code, errs)
	}
}

// TestPipelinesOnRabbitMQ moves an input into a queue, and the queue through a command into a file.
func TestPipelinesOnRabbitMQ(t *testing.T) {
	server, err := testrabbit.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	inFolder(t, map[string]string{"policy.yaml": pipelineDocument, "in.jsonl": `{"id": "a"}` + "\n" + `{"id": "b"}` + "\n"})
	queue := strings.TrimSuffix(server.URL(), "/") + "/orders?declare=quorum"
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"consume", "orders", "--source", queue, "--task", "exec:false"}, "0 fetched"}, // creates the queue
		{[]string{"produce", "orders", "--input", "file:in.jsonl", "--sink", queue}, "2 success"},
		{[]string{"consume", "orders", "--source", queue, "--task", `exec:test $TENET_ATTEMPT = 2 && tr a-z A-Z`, "--sink", "file:out.jsonl"}, "2 retries"},
		{[]string{"consume", "orders", "--source", queue, "--task", "exec:false"}, "0 fetched"},
	} {
		code, out, errs := runIn(t.Context(), nil, "", append(step.args, "--policy", "policy.yaml")...)
		if code != 0 || !strings.Contains(out, step.want) {
			t.Fatalf("tenet %v: %d, want %s\n%s%s", step.args, code, step.want, out, errs)
		}
	}
	if got := read(t, "out.jsonl"); got != "{\"ID\": \"A\"}\n{\"ID\": \"B\"}\n" {
		t.Errorf("passed on %q", got)
	}
}

func TestSummaryHasTheFieldsOfItsContract(t *testing.T) {
	inFolder(t, map[string]string{"policy.yaml": pipelineDocument, "in.jsonl": ""})
	code, out, errs := runIn(t.Context(), nil, "", "consume", "--policy", "policy.yaml", "orders", "--source", "file:in.jsonl", "--task", "exec:true", "-o", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
		t.Fatalf("%d, %v: %s%s", code, err, out, errs)
	}
	for _, name := range []string{"fetched", "processed", "success", "exception", "failed", "redelivered", "retries", "elapsed"} {
		if _, ok := got[name].(float64); !ok {
			t.Errorf("%s is %v", name, got[name])
		}
	}
}
