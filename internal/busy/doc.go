// Package busy lets a job wait that its worker could not begin because the machine was short of something.
package busy
