package retry

import "time"

// ResetGlobal forgets the default executor, so that a test can be run twice in one process.
func ResetGlobal() { global.Store(nil) }

// Age makes the process older for mechanisms whose clock counts from its start.
func Age(d time.Duration) { epoch = epoch.Add(-d) }
