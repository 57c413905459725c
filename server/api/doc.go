// Package api holds the types that the server's HTTP API sends and receives, shared by the server and its clients.
//
// Times are RFC 3339 in UTC with microseconds, durations are seconds. A payload, an output or a result that is JSON stands
// in the document as it is; other bytes are sent in base64, in a field whose name ends in _base64.
package api
