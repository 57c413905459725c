// Package periodic checks and lists periodic jobs, and reads their files.
package periodic
