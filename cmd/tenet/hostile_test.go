//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server"
)

// world holds everything that commands read, with one text in each place of a user's data.
type world struct{ store, dead, held, key, log, id, policy, periodic, lines, envoy, server, secret string }

func newWorld(t *testing.T, text string) world {
	t.Helper()
	dir := t.TempDir()
	w := world{store: "sqlite:" + dir + "/jobs.db", log: dir + "/audit.jsonl"}
	write := func(name string, v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		writeFile(t, path, string(raw))
		return path
	}
	type m = map[string]any
	once := m{"retry": m{"max_attempts": 1}}
	w.policy = write("policy.yaml", m{
		"version": 1, "policies": m{"a." + text: m{"id": text}}, "queues": m{text: m{}},
		"consumers": m{text: m{"steps": m{"process": once, "success": once}}, "c": m{"steps": m{"process": once}}}, "producers": m{text: m{}},
	})
	w.periodic = write("periodic.yaml", []m{{"name": text, "cron": "@daily", "job": m{"type": text, "queue": text}}, {"name": text + "2", "cron": text, "job": m{}}})
	w.lines = write("lines.jsonl", m{"id": text, "type": text, "queue": text, "bad": text})
	w.envoy = write("envoy.json", m{"route_config": m{"virtual_hosts": []m{{"name": text, "domains": []string{"*"}, "routes": []m{{"match": m{"prefix": "/"}, "route": m{"cluster": text, "retry_policy": m{"retry_on": text}}}}}}}})
	db, err := sqlite.Open(t.Context(), dir+"/jobs.db", sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w.fill(t, db, text)
	w.serve(t, db, text)
	w.key = "k"
	for _, key := range []string{"k", text} { // the store may reject one
		_, _ = db.Idempotency().Begin(t.Context(), idempotency.BeginRequest{ID: idempotency.ID{Key: key}, Owner: text, Lease: time.Hour})
	}
	_, _, _ = runIn(t.Context(), nil, "", "run", "--key", text, "--max-attempts", "1", "--audit", "file:"+w.log, "--", "false")
	_, out, _ := runIn(t.Context(), nil, "", "audit", "query", w.log, "-o", "jsonl", "--limit", "1")
	var e struct {
		WorkID string `json:"work_id"`
	}
	_ = json.Unmarshal([]byte(out), &e)
	w.id = e.WorkID
	return w
}

// fill stores a dead job, a held one and one that completed.
func (w *world) fill(t *testing.T, db *sqlite.DB, text string) {
	t.Helper()
	s := db.Jobs()
	clean := strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "") // texts that a job's fields accept
	for i, kind := range []job.Kind{job.KindDead, job.KindComplete, ""} {
		receipt, err := job.NewClient(s).Enqueue(t.Context(), job.Request{Type: clean, Queue: clean, UniqueKey: clean + string(rune('0'+i)), Payload: text, Meta: map[string]string{"m": clean}})
		if err != nil {
			t.Skipf("no job can hold %q: %v", text, err)
		}
		w.held = receipt.ID
		if kind == "" {
			break
		}
		list, err := s.Claim(t.Context(), job.Claim{Worker: clean, Queues: []job.Slots{{Queue: clean, Free: 1}}, Lease: time.Hour})
		if err != nil || len(list) != 1 {
			t.Fatalf("%d jobs claimed: %v", len(list), err)
		}
		if kind == job.KindDead {
			w.dead = receipt.ID
		}
		for _, err := range s.Settle(t.Context(), []job.Settlement{{Ref: list[0].Ref(), Kind: kind, Error: text, Reason: "exit_code", Output: []byte(text)}}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.SetQueue(t.Context(), job.QueueState{Queue: clean, Paused: true, Reason: text}); err != nil {
		t.Skip(err)
	}
}

// serve starts a server on the store, with a document, a client and a token that hold the text.
func (w *world) serve(t *testing.T, db *sqlite.DB, text string) {
	t.Helper()
	clean := strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	store := db.Policies()
	admin, secret := server.NewToken(policystore.Token{Name: "admin", Scopes: []policystore.Scope{policystore.ScopeAdmin}})
	other, _ := server.NewToken(policystore.Token{Name: clean, Queues: []string{clean}, Creator: clean})
	_, err := store.Save(t.Context(), policystore.Document{Name: "d", Newest: 2, Current: 1, Rollout: &policystore.Rollout{ID: clean, Candidate: 2, Base: 1, State: policystore.Running, Actor: clean}},
		policystore.Revision{Document: "d", Number: 1, Body: []byte("version: 1\n"), Author: clean, Message: clean},
		policystore.Revision{Document: "d", Number: 2, Body: []byte("version: 1\npolicies: {a.b: {}}\n"), Author: clean})
	if err := errors.Join(err, store.AddToken(t.Context(), admin), store.AddToken(t.Context(), other), store.SaveClients(t.Context(), []policystore.Client{
		{Document: "d", ID: clean, Labels: map[string]string{clean: clean}, Reason: clean, LastSeen: time.Now()},
	})); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(t.Context(), server.Options{
		Stores:   server.Stores{Jobs: db.Jobs(), Records: db.Idempotency(), Audit: db.Audit(), Policies: store},
		ReadOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(s.Handler())
	t.Cleanup(listener.Close)
	w.server, w.secret = listener.URL, secret
}

// commands lists every command that prints data, and some that only print their arguments.
func (w world) commands(text string) [][]string {
	store := []string{"--store", w.store}
	list := [][]string{
		{"jobs", "list"}, {"jobs", "list", "--state", text}, {"jobs", "inspect", w.dead}, {"jobs", "inspect", text}, {"jobs", "stats"},
		{"jobs", "cancel", text}, {"jobs", "cancel", w.held, "--dry-run"}, {"jobs", "retry", text}, {"jobs", "delete", "--yes", text},
		{"jobs", "import", w.lines}, {"dlq", "list"}, {"dlq", "list", "--group"}, {"dlq", "requeue", "--dry-run", text}, {"dlq", "requeue", "--dry-run", "--canary", "1"}, {"redrives", "list"}, {"redrives", "inspect", text}, {"redrives", "undo", text}, {"redrives", "abort", text}, {"redrives", "pause", text}, {"redrives", "resume", text}, {"redrives", "rate", text, "1/s"}, {"dlq", "purge", "--dry-run", "--type", text},
		{"queues", "list"}, {"limits", "list"}, {"limits", "set", "x", "--queue", text, "--key", "meta." + text, "--concurrency", "1"}, {"queues", "pause", text, "--reason", text}, {"queues", "resume", text},
		{"enqueue", text, text, "--dry-run"}, {"enqueue", text, "--queue", text}, {"enqueue", "--json", text}, {"jobs", "enqueue", text, "--dry-run"},
		{"idempotency", "get", w.key}, {"idempotency", "get", text}, {"idempotency", "list", "--state", "in_flight"}, {"idempotency", "resolve", text, "--as", "failed", "--dry-run"}, {"idempotency", "clear", text, "--dry-run"},
		{"periodic", "run", text, "--file", w.periodic}, {"migrate", "status"}, {"migrate", "up", "--dry-run"}, {"migrate", "down", "--dry-run"},
		{"worker", "--dry-run", "--queue", text}, {"jobs", "watch", "state:" + text},
		{"flows", "list"}, {"flows", "inspect", text}, {"flows", "cancel", text, "--dry-run"}, {"flows", "retry", text}, {"queues", "set", text, "concurrency=2"},
		{"periodic", "set", text, "--cron", "@daily", "--job", `{"type":"x"}`}, {"periodic", "set", "x", "--cron", text, "--job", text}, {"periodic", "delete", text},
	}
	for i := range list {
		list[i] = append(slices.Clone(list[i]), store...)
	}
	for _, args := range [][]string{
		{"clients", "list"}, {"clients", "mechanisms"}, {"clients", "pipelines"}, {"policy", "list"}, {"token", "list"}, {"token", "create", text}, {"token", "revoke", text}, {"jobs", "search", "error:" + text}, {"jobs", "list"},
		{"policy", "publish", w.policy, "--name", "d"}, {"policy", "revisions", "d"}, {"policy", "revisions", text}, {"policy", "get", "d"}, {"policy", "get", text},
		{"policy", "compare", "d", "1", "2"}, {"policy", "rollback", "d", "--to", "1"}, {"policy", "rollout", "show", "d"}, {"policy", "rollout", "pause", text},
		{"policy", "rollout", "resume", text}, {"policy", "rollout", "abort", text}, {"policy", "trial", "show", text}, {"policy", "trial", "end", text},
		{"policy", "freeze", "d", "--reason", text}, {"policy", "unfreeze", text},
	} {
		list = append(list, append(args, "--server", w.server, "--token", w.secret))
	}
	list = append(list, [][]string{
		{"migrate", "index", text, "--dry-run", "--store", w.store},
		{"audit", "query", w.log}, {"audit", "query", w.log, "--type", text}, {"audit", "tail", "--follow=false", w.log}, {"audit", "explain", w.log, w.id},
		{"audit", "explain", w.log, text}, {"audit", "verify", w.log}, {"audit", "head", w.log}, {"audit", "replay", w.log}, {"audit", "stats", w.log},
		{"audit", "stats", w.log, "--alert", text}, {"audit", "verify", text}, {"audit", "query", "file:" + text},
		{"policy", "check", w.policy}, {"policy", "check", w.periodic}, {"policy", "show", "a." + text, "--policy", w.policy},
		{"policy", "delays", "a." + text, "--policy", w.policy}, {"policy", "import", "envoy", w.envoy}, {"policy", "import", "grpc", w.envoy},
		{"policy", "import", "istio", w.envoy}, {"policy", "import", "gateway-api", w.envoy}, {"policy", "import", "resilience4j", w.envoy}, {"policy", "import", "dapr", w.envoy},
		{"policy", "import", "aws", w.envoy}, {"policy", "prove", w.policy}, {"policy", "diff", w.policy, w.policy}, {"policy", "diff", w.policy, text},
		{"map", "--graph", w.policy}, {"map", "--graph", text}, {"simulate", w.policy}, {"simulate", text},
		{"policy", "limits"}, {"policy", "catalog"}, {"policy", "schema"}, {"pipeline", "check", "--policy", w.policy}, {"periodic", "list", "--file", w.periodic}, {"periodic", "check", w.periodic}, {"pipeline", "check", w.periodic},
		{"run", "--key", text, "--max-attempts", "1", "-v", "--timeline", "text", "--", "false"}, {"run", "--key", text, "--dry-run", "--", "true"},
		{"run", "--max-attempts", "1", "--", text}, {"run", "--retry-exit", text, "--", "true"}, {"run", "--policy", text, "--", "true"},
		{"consume", "--policy", w.policy, "c", "--source", "file:" + w.lines + "?forget=true", "--task", "exec:exit 1"},
		{"consume", "--policy", w.policy, "c", "--id", text, "--payload", text, "--task", "exec:exit 1"}, {"consume", "--policy", w.policy, text, "--source", text, "--task", text},
		{"produce", "--policy", w.policy, text, "--id", text, "--payload", text, "--sink", "file:" + text}, {"demo", "-n", text}, {"version", text}, {text}, {"jobs", text}, {"--" + text},
	}...)
	return list
}

// forged returns the control sequences in a text that a terminal would interpret.
func forged(text string) string {
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		return text[i:]
	}
	return ""
}

// FuzzO1DataCannotControlTheTerminal runs every command that prints data, with the same text in each place of data. The output
// must not contain a line that the data begins, or control sequences.
func FuzzO1DataCannotControlTheTerminal(f *testing.F) {
	for _, text := range []string{
		"\n", "a\r\ntenet: forged", "\x1b[2J\x1b[H \x1b]0;title\x07 \u009b31m tab\tnew\vline\f \u202eodd\u2028 \x7f\b\b", "\x1b]8;;http://x\x1b\\", "bad \xff\x9b", "nul \x00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 100 {
			t.Skip("fields have lengths")
		}
		t.Chdir(t.TempDir())
		text = "x" + text + "~end"
		last := text[strings.LastIndexByte(text, '\n')+1:]
		w := newWorld(t, text)
		for _, args := range w.commands(text) {
			_, out, errs := runIn(t.Context(), nil, "", args...)
			if args[0] == "policy" && args[1] == "import" {
				out = "" // a document, which YAML quotes
			}
			if found := forged(out + errs); found != "" {
				t.Errorf("tenet %q prints %q:\n%s%s", args, found, out, errs)
			}
			for line := range strings.Lines(out + errs) {
				if last != text && strings.HasPrefix(line, last) {
					t.Errorf("tenet %q prints a forged line:\n%s%s", args, out, errs)
				}
			}
		}
	})
}

// TestO1TheFuzzTestRunsEveryCommandThatPrintsData keeps the fuzz test complete.
func TestO1TheFuzzTestRunsEveryCommandThatPrintsData(t *testing.T) {
	tried := map[string]bool{}
	for _, args := range (world{}).commands("x") {
		for n := range args {
			tried["tenet "+strings.Join(args[:n+1], " ")] = true
		}
	}
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("output") != nil && !tried[cmd.CommandPath()] {
			t.Errorf("the fuzz test does not run %s", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	a := &cli.App{Program: cli.Program{AddCommands: addCommands}}
	each(a.Root())
}
