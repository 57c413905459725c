// Package open opens the stores, audit logs, sources and sinks that flags name by URL.
package open
