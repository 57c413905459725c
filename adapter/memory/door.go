package memory

import (
	"context"
	"fmt"
	"sync"
)

// door lets one operation at a time into a store until it is closed.
type door struct {
	mu     sync.Mutex
	closed bool
}

// lock fails with shut if the store is closed, and if ctx has ended; then nothing is locked.
func (d *door) lock(ctx context.Context, shut error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return shut
	}
	return nil
}
