// Package schema migrates a store's tables.
package schema
