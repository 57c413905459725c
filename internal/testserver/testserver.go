//go:build unix

package testserver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

const (
	startTime = 3 * time.Minute // RabbitMQ takes ten seconds, and two minutes on a busy machine
	stopTime  = 3 * time.Minute // a checkpoint on a busy disk takes more than one
	poll      = 20 * time.Millisecond
)

// Process is a server's process. Its methods are for one goroutine.
type Process struct {
	Name    string           // for errors
	Command func() *exec.Cmd // makes the command that runs the server in the foreground
	Answers func() bool      // whether the server is ready for clients
	User    *syscall.Credential
	Orphan  syscall.Signal // what the server gets when the test process dies; default SIGKILL
	Group   bool           // the server has helpers, which end with it

	cmd    *exec.Cmd
	output *bytes.Buffer
}

// Run starts the server, at first or after End, and returns when it answers.
func (p *Process) Run() error {
	p.cmd, p.output = p.Command(), &bytes.Buffer{}
	orphan := cmp.Or(p.Orphan, syscall.SIGKILL)
	p.cmd.SysProcAttr = attributes(p.User, orphan)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if p.Group {
		p.cmd.WaitDelay = startTime // helpers may keep the output open for a moment
	}
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	if p.Answers == nil || Until(p.Answers) {
		return nil
	}
	err := p.End(syscall.SIGKILL) // until then, the process writes its output
	return errors.Join(fmt.Errorf("waited %v for %s: %s", startTime, p.Name, p.output), err)
}

// End sends a signal that ends the server and waits for its end. A server that has ended by a signal which shuts it down in order
// reports no fault; SIGKILL and SIGQUIT do not ask for order.
func (p *Process) End(signal syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	cmd := p.cmd
	p.cmd = nil
	if err := cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	kill := func() { _ = cmd.Process.Kill() }
	if p.Group {
		kill = func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	if signal == syscall.SIGKILL {
		kill()
	}
	late := time.AfterFunc(stopTime, kill)
	defer late.Stop()
	// Processes that the server has started end when they notice. They hold the output open until then, and Wait waits for that.
	err := cmd.Wait()
	if p.Group {
		kill()
		if !Until(func() bool { return errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH) }) {
			return fmt.Errorf("waited %v for the end of %s", startTime, p.Name)
		}
	}
	if err != nil && signal != syscall.SIGKILL && signal != syscall.SIGQUIT {
		return fmt.Errorf("stop %s: %w: %s", p.Name, err, p.output)
	}
	return nil
}

// Signal sends a signal that does not end the server, such as SIGSTOP.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Output is what the server has written since Run, once it has ended.
func (p *Process) Output() string {
	if p.output == nil {
		return ""
	}
	return p.output.String()
}

// PID is the process's ID, and that of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Until waits for a condition, for three minutes at most, and reports whether it became true.
func Until(ok func() bool) bool {
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(poll) {
		if ok() {
			return true
		}
	}
	return false
}

// Says reports whether a server on a port of 127.0.0.1 answers a question with a text that begins so. Without a question it only
// has to take connections.
func Says(port int, question, begin string) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	if question == "" {
		return true
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte(question)); err != nil {
		return false
	}
	answer := make([]byte, max(len(begin), 1))
	n, err := c.Read(answer)
	return err == nil && n == len(answer) && bytes.HasPrefix(answer, []byte(begin))
}

// FreePorts finds a port of 127.0.0.1 for each, all different.
func FreePorts(ports ...*int) error {
	for _, p := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		*p = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}
