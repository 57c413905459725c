// Package monitor is how long-running commands are observed: health, metrics, traces and verbose logs.
package monitor
