// Package busy makes jobs wait that a worker could not start because its machine was short of something.
package busy
