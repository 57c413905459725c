// Package uuidv7 makes UUIDs of version 7 (RFC 9562), which sort by the time at which they were made.
//
// The generator of github.com/google/uuid takes a lock and reads the system's entropy for each ID. Calls cannot afford that.
package uuidv7
