//go:build !unix && !windows

package files

import "os"

const noWait = 0

// lock does nothing: on these systems the caller must ensure that a file has a single user.
func lock(*os.File) error { return nil }

func syncDir(string) error { return nil }
