// Package policyfile reads policy documents: it parses YAML or JSON, reports every fault with its place, and compiles
// valid documents into a policy.Set.
//
// # The model
//
// A document is read in three steps. First its nodes are checked against the Go types of [File] and of package policy:
// names, kinds of value and ranges come from their struct tags, so parser, schema and reference cannot disagree. Then the
// objects that govern one key are merged, field by field: the catalog's row below the document's defaults,
// a queue above them, the entry itself on top; null means explicitly none. Last, the result is checked as a whole and
// compiled.
//
// Reading is strict. Unknown fields and names, values of a wrong type or outside their range, duplicate keys and
// contradictions are faults, and [Parse] returns all of them at once in an [*Error]. Values beyond a limit of their
// surface are warnings: they are clamped and the document is accepted. So are names that look like patterns.
//
// Documents are data: no tags, no merge keys, one document per file, at most 1 MiB, 64 levels and 100,000 values once
// aliases are expanded. JSON is read by the same parser.
//
// [Schema] is a JSON Schema of the same language. It accepts what Parse accepts except for rules that no schema can
// state: names must be declared, fields of one object must agree with each other and with the defaults beneath them,
// limits may only tighten, keys must be unique strings, and integers in fetch.extra must be exact in JSON.
package policyfile

//go:generate go run ../cmd/tenet/internal/gen
