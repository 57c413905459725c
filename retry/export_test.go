package retry

// ResetGlobal forgets the default executor, so that a test can be run twice in one process.
func ResetGlobal() { global.Store(nil) }
