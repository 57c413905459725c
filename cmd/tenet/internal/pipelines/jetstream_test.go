//go:build unix

package pipelines_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/pipelines"
)

// TestPipelinesOnJetStream moves an input into a stream, and the stream through a command into a file.
func TestPipelinesOnJetStream(t *testing.T) {
	s := natstest.Start(t)
	c, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.new"}}); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"policy.yaml": "version: 1\nconsumers: {orders: {}}\nproducers: {orders: {}}\n", "in.jsonl": `{"id": "a"}` + "\n" + `{"id": "b"}` + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stream := s.ClientURL() + "/ORDERS"
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"produce", "orders", "--input", "file:in.jsonl", "--sink", stream}, "2 success"},
		{[]string{"produce", "orders", "--input", "file:in.jsonl?forget=true", "--sink", stream}, "2 success"}, // already stored
		{[]string{"consume", "orders", "--source", stream + "?consumer=c", "--task", "exec:tr a-z A-Z", "--sink", "file:out.jsonl"}, "2 fetched: 2 success"},
		{[]string{"produce", "orders", "--input", stream + "?consumer=d", "--sink", "file:copy.jsonl"}, "2 fetched: 2 success"},
		{[]string{"produce", "orders", "--input", stream + "?consumer=d", "--sink", "file:none.jsonl"}, "0 fetched"},
	} {
		code, out := tenet(t, append(step.args, "--policy", "policy.yaml")...)
		if code != 0 || !strings.Contains(out, step.want) {
			t.Fatalf("tenet %v: %d, want %s\n%s", step.args, code, step.want, out)
		}
	}
	if got := read(t, "out.jsonl"); got != "{\"ID\": \"A\"}\n{\"ID\": \"B\"}\n" {
		t.Errorf("passed on %q", got)
	}
}

// tenet runs a command of this package and returns all that it prints.
func tenet(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	printed, err := os.Create("printed")
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	p := cli.Program{
		Args: args, Stdin: strings.NewReader(""), Stdout: printed, Stderr: printed,
		AddCommands: func(a *cli.App, root *cobra.Command) { root.AddCommand(pipelines.Commands(a)...) },
	}
	return p.Run(t.Context()), read(t, "printed")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
