// Package filter parses the filters that commands, the HTTP API and the web UI share:
//
//	state:dead queue:mail type:"mail:*" error:timeout meta.tenant:acme payload.order.id:42 before:2h
//
// A filter is a list of terms, separated by white space. All of them hold (AND). A term names a field and, after a colon, the
// value that the field has. Several values, separated by commas, are alternatives (OR): state:dead,cancelled.
//
// A value with white space, a comma, a quote or a backslash stands in double quotes, in which \" is a quote and \\ a
// backslash. A * at the end of a value, quoted or not, matches any rest, in the fields that allow it; in quotes, \* is the
// character. There is no negation, no parentheses and no word without a field.
//
// The caller says which fields exist. The package knows nothing of what they mean.
package filter
