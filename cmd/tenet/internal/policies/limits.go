package policies

import (
	"time"

	"github.com/tenetdev/tenet/policy"
)

// RunNamespace is the namespace of the keys that tenet run derives from commands.
const RunNamespace = "run"

// CommandLimits returns the limits of commands, which take longer than calls: at most 1,000 attempts, a first wait of 1 s by
// default, and waits of at most a day.
func CommandLimits() policy.Limits {
	l := policy.CallLimits()
	l.Attempts.Max = 1000
	l.Backoff.Default, l.Backoff.Max = time.Second, 24*time.Hour
	l.Cap.Default, l.Cap.Max = time.Minute, 24*time.Hour
	return l
}
