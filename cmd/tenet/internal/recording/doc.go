// Package recording puts on record what operators do and how policies change.
package recording
