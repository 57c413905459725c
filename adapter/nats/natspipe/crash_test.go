package natspipe_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

// Environment variables that make a process of this test binary a server: its folder, and its port, 0 for any.
const (
	serveFolder = "TENET_TEST_NATS_FOLDER"
	servePort   = "TENET_TEST_NATS_PORT"
)

// serve runs a NATS server until its standard input ends, at the latest when the parent process ends. It writes the server's
// address when the server is ready.
func serve(folder string) error {
	port, err := strconv.Atoi(os.Getenv(servePort))
	if err != nil {
		return err
	}
	s, err := natstest.Serve(server.Options{Port: port, StoreDir: folder})
	if err != nil {
		return err
	}
	fmt.Println(s.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// process is a NATS server in a separate process, on files that outlive it.
type process struct {
	folder string
	addr   string
	cmd    *exec.Cmd
	input  io.Closer
}

func (p *process) url() string { return "nats://" + p.addr }

func (p *process) run(t *testing.T) {
	t.Helper()
	_, port, _ := strings.Cut(p.addr, ":")
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), serveFolder+"="+p.folder, servePort+"="+max(port, "0"))
	p.cmd.Stderr = os.Stderr
	input, err := p.cmd.StdinPipe()
	must(t, err)
	output, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	p.input = input
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the server wrote %q: %v", line, err)
	}
	p.addr = strings.TrimSpace(line)
}

// kill ends the process by SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // reports that the process was killed
}

// TestL11EveryTransactionEndsAsScriptedThroughCrashes keeps the streams in files that the server syncs every two minutes, its
// default: what the server confirmed survives its process.
func TestL11EveryTransactionEndsAsScriptedThroughCrashes(t *testing.T) {
	p := &process{folder: t.TempDir()}
	p.run(t)
	t.Cleanup(p.kill)
	conn, err := natsgo.Connect(p.url(), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(20*time.Millisecond))
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must(t, err)
	for _, name := range []string{pipelinetest.Work, pipelinetest.DeadLetters} {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage})
		must(t, err)
	}
	const lease = slow
	options := func(stream string) natspipe.Options {
		return natspipe.Options{Stream: stream, AckWait: lease, Timeout: slow}
	}
	pipelinetest.Crashes(t, pipelinetest.Broker{
		Source: func(t *testing.T, queue string) pipeline.Source {
			s, err := natspipe.OpenSource(context.Background(), p.url(), options(queue))
			must(t, err)
			return s
		},
		Sink: func(t *testing.T, queue string) pipeline.Sink {
			s, err := natspipe.OpenSink(context.Background(), p.url(), options(queue))
			must(t, err)
			return s
		},
		Left: func(t *testing.T, queue string) int {
			c, err := js.Consumer(t.Context(), queue, natspipe.DefaultConsumer)
			must(t, err)
			return int(c.CachedInfo().NumPending) + c.CachedInfo().NumAckPending
		},
		Kill: func(t *testing.T) {
			p.kill()
			p.run(t)
		},
		Lease: lease,
	})
}
