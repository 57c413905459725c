// Package files opens, replaces and locks the files that hold data.
//
// New files get mode 0600 whatever the umask; the mode of an existing file is kept. Only regular files are opened, without
// waiting for the other end of a pipe. A file is replaced in one step, so that readers see the old content or the new, and a
// symbolic link in its place is replaced itself instead of followed.
package files
