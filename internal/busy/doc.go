// Package busy makes a job wait that a worker could not start because its machine was short of file descriptors, processes or memory.
package busy
