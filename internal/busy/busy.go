package busy

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/tenetdev/tenet/job"
)

// Delay is how long a job that could not be started waits.
const Delay = 10 * time.Second

// Snooze returns err as an error that lets its job wait without using up an attempt, or nil if err does not say that the process or its
// machine is short of file descriptors, processes or memory.
func Snooze(err error) error {
	for _, lack := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		lookup, ok := errors.AsType[*net.DNSError](err) // it holds only the text of its cause
		if errors.Is(err, lack) || ok && strings.HasSuffix(lookup.Err, lack.Error()) {
			return fmt.Errorf("%w: %w", job.Snooze(Delay), err)
		}
	}
	return nil
}
