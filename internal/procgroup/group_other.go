//go:build !unix

package procgroup

import (
	"os"
	"os/exec"
	"syscall"
)

func lead(*exec.Cmd) {}

// signalGroup ends the command alone, whatever the signal.
func signalGroup(leader int, _ syscall.Signal) {
	if p, err := os.FindProcess(leader); err == nil {
		_ = p.Kill()
	}
}

func aliveGroup(int) bool { return false }
