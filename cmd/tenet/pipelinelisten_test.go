//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
)

// until reads a stream until a line contains the text, and then discards the rest.
func until(t *testing.T, stream io.Reader, text string) string {
	t.Helper()
	var log strings.Builder
	part := make([]byte, 4096)
	for !strings.Contains(log.String(), text) {
		n, err := stream.Read(part)
		if err != nil {
			t.Fatalf("%v: %s", err, log.String())
		}
		log.Write(part[:n])
	}
	go func() { _, _ = io.Copy(io.Discard, stream) }()
	return log.String()
}

func ask(t *testing.T, url string) (code int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestL9PipelinesServeHealthAndMetrics: a consumer with an empty source is healthy; after a signal it is no longer ready.
func TestL9PipelinesServeHealthAndMetrics(t *testing.T) {
	inFolder(t, map[string]string{"in.jsonl": "", "policy.yaml": `version: 1
consumers: {stream: {loop: {streaming: true, empty_queue: {backoff: 0.01, backoff_cap: 0.01}}}}
`})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	read, write := io.Pipe()
	done := make(chan int, 1)
	go func() {
		p := cli.Program{
			Args: []string{
				"consume", "--policy", "policy.yaml", "stream", "--source", "file:in.jsonl?follow=true",
				"--task", "exec:touch started; while ! test -e stop; do sleep 0.02; done", "--listen", "127.0.0.1:0",
			},
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: write, AddCommands: addCommands,
		}
		done <- p.Run(ctx)
		_ = write.Close()
	}()
	base := "http://" + regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(until(t, read, "serving health and metrics"))[1]
	for path, want := range map[string]string{"/livez": "ok\n", "/readyz": "ok\n"} {
		if code, body := ask(t, base+path); code != http.StatusOK || body != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	writeFile(t, "in.jsonl", `{"id":"a"}`+"\n")
	for {
		if _, err := os.Stat("started"); err == nil {
			break
		}
	}
	if _, metrics := ask(t, base+"/metrics"); !strings.Contains(metrics, `tenet_pipeline_in_flight{pipeline="consumer/stream"} 1`) {
		t.Error(metrics)
	}
	cancel(command.Interrupt{Signal: syscall.SIGTERM})
	if code, body := ask(t, base+"/readyz"); code != http.StatusServiceUnavailable || body != "stopping\n" {
		t.Errorf("after a signal: %d %s", code, body)
	}
	if code, body := ask(t, base+"/livez"); code != http.StatusOK {
		t.Errorf("after a signal: %d %s", code, body)
	}
	writeFile(t, "stop", "")
	if code := <-done; code != 143 {
		t.Errorf("exit code %d", code)
	}
}
