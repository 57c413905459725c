//go:build unix

package main

import (
	"fmt"
	"os"

	"github.com/tenetdev/tenet/internal/debian"
)

func main() {
	if err := debian.FindAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
