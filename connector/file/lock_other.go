//go:build !unix

package file

import "os"

// lock does nothing: here it is up to the caller that a file has one user.
func lock(*os.File) error { return nil }

// syncDir does nothing: these systems do not open directories for it.
func syncDir(string) error { return nil }
