// Package complete completes the arguments and flags of commands in shells.
package complete
