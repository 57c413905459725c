package cli

import (
	"context"
	"fmt"
	"net"
)

// Listen listens on the TCP address of --listen.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err != nil {
		return nil, Usagef("--listen: %w; write host:port, for example 127.0.0.1:9090", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w; write another address of this machine or another port; port 0 is any free one", err)
	}
	return listener, nil
}
