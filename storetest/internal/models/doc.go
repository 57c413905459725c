// Package models says which answers a store may give to concurrent operations, for the checker of histories. It is apart from the suites
// so that its tests do not compile them again.
package models
