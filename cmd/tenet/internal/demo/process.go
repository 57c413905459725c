package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// stopTimeout is how long a worker may take to stop.
const stopTimeout = 10 * time.Second

// process is a worker process. It stops when its stdin ends, and so also when this process is killed.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	output bytes.Buffer // its stderr; read after exited
	exited chan struct{}
	err    error // read after exited
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("demo: worker: %w", err)
	}
	p := &process{cmd: cmd, stdin: stdin, exited: make(chan struct{})}
	cmd.Stderr = &p.output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("demo: worker: %w", err)
	}
	go func() {
		defer close(p.exited)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// kill ends the process at once, as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.exited
}

// stop lets the process finish its running jobs.
func (p *process) stop() error {
	err := p.stdin.Close()
	t := time.NewTimer(stopTimeout)
	defer t.Stop()
	select {
	case <-p.exited:
	case <-t.C:
		p.kill()
	}
	if p.err != nil {
		return fmt.Errorf("demo: worker %d: %w: %s", p.cmd.Process.Pid, p.err, lastLines(p.output.Bytes()))
	}
	if errors.Is(err, io.ErrClosedPipe) {
		err = nil
	}
	return err
}

// gone reports whether the process has ended.
func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func lastLines(text []byte) []byte {
	const most = 2000
	return bytes.TrimSpace(text[max(0, len(text)-most):])
}
