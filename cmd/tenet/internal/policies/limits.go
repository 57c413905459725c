package policies

import (
	"time"

	"github.com/tenetdev/tenet/policy"
)

// RunNamespace begins the keys of commands that are not given one.
const RunNamespace = "run"

// CommandLimits are the limits of commands, which take longer than calls and are started by people and schedules: at most
// 1,000 attempts, and waits of 1 s at first and of a day at most.
func CommandLimits() policy.Limits {
	l := policy.CallLimits()
	l.Attempts.Max = 1000
	l.Backoff.Default, l.Backoff.Max = time.Second, 24*time.Hour
	l.Cap.Default, l.Cap.Max = time.Minute, 24*time.Hour
	return l
}
