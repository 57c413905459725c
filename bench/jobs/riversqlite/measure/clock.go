package measure

import (
	"syscall"
	"time"
)

// clock measures time and processor time.
type clock struct {
	server    func() time.Duration
	began     time.Time
	cpu, busy time.Duration
}

func (c *clock) start() {
	c.busy, c.cpu = c.serverTime(), processTime()
	c.began = time.Now()
}

func (c *clock) elapsed() time.Duration { return time.Since(c.began) }

func (c *clock) stop(jobs int) Numbers {
	return Numbers{Jobs: jobs, Took: c.elapsed(), CPU: processTime() - c.cpu, Server: c.serverTime() - c.busy}
}

func (c *clock) serverTime() time.Duration {
	if c.server == nil {
		return 0
	}
	return c.server()
}

// processTime returns the processor time of this process so far.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
