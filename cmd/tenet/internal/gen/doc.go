// Command gen writes what is generated from the policy types: the descriptions in the document schema, the reference of
// document fields and the reference of reasons. Run it with "go generate ./...".
package main
