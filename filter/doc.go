// Package filter parses the filters that commands, the HTTP API and the web UI share:
//
//	state:dead queue:mail type:"mail:*" error:timeout meta.tenant:acme payload.order.id:42 before:2h
//
// A filter is a list of terms separated by white space, all of which must match (AND). A term is a field, a colon and a value.
// Values separated by commas are alternatives (OR): state:dead,cancelled.
//
// A value with white space, a comma, a quote or a backslash must be in double quotes, where \" is a quote and \\ a backslash. In
// fields that allow it, a * at the end of a value, quoted or not, matches any text; in quotes, \* is the character itself. There
// is no negation, there are no parentheses, and every word needs a field.
//
// The caller defines the fields; the package does not interpret them.
package filter
