package procgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// poll is how often Wait checks a stopping group whose leader has exited: the kernel only reports the exit of children.
const poll = 5 * time.Millisecond

// Stop says how to stop a group.
type Stop struct {
	// Signal goes to the whole group first. Default SIGTERM.
	Signal syscall.Signal
	// Grace is how long the group may take to end before it is killed. 0 kills at once.
	Grace time.Duration
}

// Group is a started command with its process group. Its one method must be called once.
type Group struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the leader has been waited for
	err    error         // of the leader; read after exited
}

// Start starts cmd as the leader of a new process group. Every started group must be waited for.
func Start(cmd *exec.Cmd) (*Group, error) {
	lead(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	g := &Group{cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(g.exited)
		g.err = cmd.Wait()
		if errors.Is(g.err, exec.ErrWaitDelay) { // the command succeeded; a process that it left behind keeps its output open
			g.err = nil
		}
	}()
	return g, nil
}

// Wait waits for the command to end and returns what exec.Cmd.Wait returns. If ctx is done or kill is closed first, it calls how,
// stops the group accordingly, and returns once the group has exited or was killed. There is no grace period once kill is closed. kill may
// be nil.
func (g *Group) Wait(ctx context.Context, kill <-chan struct{}, how func() Stop) error {
	select {
	case <-g.exited:
	case <-ctx.Done():
	case <-kill:
	}
	select {
	case <-g.exited: // its process ID may belong to another group by now
		return g.err
	default:
	}
	// Once the leader has ended, only the output of what it left behind is still read, for WaitDelay.
	if err := g.cmd.Process.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
		g.stop(how(), kill)
	}
	<-g.exited
	return g.err
}

func (g *Group) stop(s Stop, kill <-chan struct{}) {
	leader := g.cmd.Process.Pid
	if s.Grace <= 0 || !g.ended(leader, s, kill) {
		signalGroup(leader, syscall.SIGKILL)
	}
}

// ended asks the group to end and reports whether it did so in its grace period.
func (g *Group) ended(leader int, s Stop, kill <-chan struct{}) bool {
	s.Signal = cmp.Or(s.Signal, syscall.SIGTERM)
	signalGroup(leader, s.Signal)
	grace := time.NewTimer(s.Grace)
	defer grace.Stop()
	select {
	case <-g.exited:
	case <-grace.C:
		return false
	case <-kill:
		return false
	}
	look := time.NewTicker(poll)
	defer look.Stop()
	for aliveGroup(leader) {
		select {
		case <-look.C:
		case <-grace.C:
			return false
		case <-kill:
			return false
		}
	}
	return true
}
