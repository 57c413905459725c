package main

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestCopiesOfTheFirstSignalAreNotASecondOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan syscall.Signal, 3)
		stopped, killed := make(chan syscall.Signal, 1), make(chan struct{})
		go handleSignals(func() syscall.Signal { return <-signals }, func(s syscall.Signal) { stopped <- s }, func() { close(killed) })
		signals <- syscall.SIGTERM // by timeout(1), to its command
		signals <- syscall.SIGTERM // and to the process group
		synctest.Wait()
		if s := <-stopped; s != syscall.SIGTERM {
			t.Errorf("stopped by %v", s)
		}
		select {
		case <-killed:
			t.Error("a copy of the first signal killed")
		default:
		}
		time.Sleep(duplicateWindow)
		signals <- syscall.SIGINT
		<-killed
	})
}
