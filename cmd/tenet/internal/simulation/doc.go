// Package simulation holds "tenet simulate".
package simulation
