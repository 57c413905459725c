// Package pipelines holds the commands that run and check pipelines.
package pipelines
