package testpg

import "syscall"

// attributes makes a process of another user that is stopped when its parent dies. It has a process group of its own, so
// that Ctrl-C does not stop it before its tests have ended.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true, Pdeathsig: syscall.SIGINT}
}
