// Command gen generates data and pages from Go types: the descriptions in the document schema, the references of document
// fields and of reasons, and the table of adapters. Run it with "go generate ./...".
package main
