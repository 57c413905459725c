package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/job"
)

func TestNoErrorShowsThePasswordOfAURL(t *testing.T) {
	for _, url := range []string{
		"redis://user:s3cret@h", "mysql://user:s3cret@h", "host=h password=s3cret", "nats://user:s3cret%zz@h/s",
		"nats://user:s3cret@a,nats://user:s3cret@b:port", "postgres://user:s3cret%zz@h/d", "amqp://user:s3cret%zz@h/q", "http://user:s3cret@h/",
	} {
		for _, args := range [][]string{
			{"jobs", "stats", "--store", url},
			{"run", "--audit", url, "--", "true"},
			{"run", "--idempotency-key", "k", "--idempotency-store", url, "--", "true"},
			{"idempotency", "get", "k", "--store", url},
			{"audit", "verify", url},
			{"consume", "--policy", "-", "orders", "--task", "exec:true", "--source", url},
			{"consume", "--policy", "-", "orders", "--task", "exec:true", "--source", "jobs:" + url},
		} {
			if args[0] == "audit" && !strings.Contains(url, "://") {
				continue // there it is the name of a file
			}
			code, out, errs := runIn(t.Context(), map[string]string{}, "version: 1\nconsumers: {orders: {}}\n", args...)
			if code == 0 || strings.Contains(out+errs, "s3cret") {
				t.Errorf("%q: code %d: %s%s", args, code, out, errs)
			}
		}
	}
}

func TestAWorkerServesHealthAndMetricsUntilItStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	store := "sqlite:" + t.TempDir() + "/jobs.db"
	if code, _, errs := runIn(ctx, nil, "", "enqueue", "exec", `{"argv":["true"]}`, "--store", store, "--queue", "mail", "--run-at", "2100-01-01T00:00:00Z"); code != 0 {
		t.Fatal(errs)
	}
	read, write := io.Pipe()
	done := make(chan int, 1)
	go func() {
		p := cli.Program{
			Args:  []string{"worker", "--store", store, "--listen", "127.0.0.1:0"},
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: write, AddCommands: addCommands,
		}
		done <- p.Run(ctx)
		_ = write.Close()
	}()
	var log strings.Builder
	address := regexp.MustCompile(`address=(\S+)`)
	text := make([]byte, 4096)
	for !strings.Contains(log.String(), "msg=working") {
		n, err := read.Read(text)
		if err != nil {
			t.Fatalf("%v: %s", err, log.String())
		}
		log.Write(text[:n])
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	base := "http://" + address.FindStringSubmatch(log.String())[1]
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/livez": "ok", "/readyz": "ok", "/metrics": `tenet_jobs{queue="mail",state="scheduled"} 1`} {
		response, err := client.Get(base + path)
		for err == nil && response.StatusCode == http.StatusServiceUnavailable { // the worker has not polled its store yet
			_ = response.Body.Close()
			response, err = client.Get(base + path)
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s", path, response.StatusCode, body)
		}
	}
	cancel(command.Interrupt{Signal: syscall.SIGTERM})
	if code := <-done; code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}

func TestASecondSignalEndsAWorkerAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	store := "sqlite:" + t.TempDir() + "/jobs.db"
	if code, _, errs := runIn(ctx, nil, "", "enqueue", "exec", `{"argv":["sleep","3"]}`, "--store", store); code != 0 {
		t.Fatal(errs)
	}
	kill, done := make(chan struct{}), make(chan int, 1)
	go func() {
		p := cli.Program{
			Args:  []string{"worker", "--store", store, "--allow-exec", "--grace", "1h"},
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Kill: kill, AddCommands: addCommands,
		}
		done <- p.Run(ctx)
	}()
	for {
		_, out, _ := runIn(t.Context(), nil, "", "jobs", "list", "--state", "running", "--store", store)
		if strings.Contains(out, "exec") {
			break
		}
	}
	cancel(command.Interrupt{Signal: syscall.SIGINT})
	close(kill)
	if code := <-done; code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}

// TestJ25AHandlerThatFinishesFirstKeepsItsOutcome: a handler that completes its work although it was asked to stop has completed, and
// the command says so.
func TestJ25AHandlerThatFinishesFirstKeepsItsOutcome(t *testing.T) {
	path := t.TempDir() + "/jobs.db"
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	started := make(chan struct{})
	w := job.NewWorker(db.Jobs(), job.WithLogger(slog.New(slog.DiscardHandler)))
	outcomes := map[string]struct {
		err error
		out string
	}{
		"completes": {nil, "completed before it could be cancelled"},
		"stops":     {errors.New("stopped on request"), "cancelled"},
	}
	for jobType, o := range outcomes {
		w.HandleRaw(jobType, func(ctx context.Context, _ job.Job[[]byte]) error {
			started <- struct{}{}
			<-ctx.Done()
			return o.err
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for jobType, o := range outcomes {
		receipt, err := job.NewClient(db.Jobs()).Enqueue(t.Context(), job.Request{Type: jobType})
		if err != nil {
			t.Fatal(err)
		}
		<-started
		code, out, errs := runIn(t.Context(), nil, "", "jobs", "cancel", receipt.ID, "--wait", "--store", "sqlite:"+path)
		if want := receipt.ID + " " + o.out + "\n"; code != 0 || out != want {
			t.Errorf("%s: code %d, %q, want %q: %s", jobType, code, out, want, errs)
		}
		code, out, errs = runIn(t.Context(), nil, "", "jobs", "inspect", receipt.ID, "-o", "json", "--store", "sqlite:"+path)
		state, _, _ := strings.Cut(o.out, " ")
		if code != 0 || !strings.Contains(out, `"state": "`+state+`"`) || !strings.Contains(out, `"cancel_requested_at": "20`) {
			t.Errorf("%s: code %d, %s%s", jobType, code, out, errs)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
