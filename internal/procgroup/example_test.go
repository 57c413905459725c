//go:build unix

package procgroup_test

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/tenetdev/tenet/internal/procgroup"
)

func ExampleStart() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	group, err := procgroup.Start(exec.Command("sh", "-c", "sleep 60 & wait"))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = group.Wait(ctx, nil, func() procgroup.Stop { return procgroup.Stop{Grace: time.Second} })
	fmt.Println(err)
	// Output: signal: terminated
}
