//go:build unix

package procgroup

import (
	"os/exec"
	"syscall"
)

// lead makes cmd the leader of a new process group.
func lead(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// signalGroup sends a signal to every process of the group. It is not an error if the group has already exited.
func signalGroup(leader int, s syscall.Signal) { _ = syscall.Kill(-leader, s) }
