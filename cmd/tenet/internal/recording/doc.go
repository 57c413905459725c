// Package recording records the actions of operators and changes of policies in audit logs.
package recording
