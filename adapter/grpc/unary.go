package tenetgrpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tenetdev/tenet/retry"
)

// UnaryClientInterceptor runs unary calls under the policies of their keys. It is safe for concurrent use.
func UnaryClientInterceptor(o Options) grpc.UnaryClientInterceptor {
	o = o.withDefaults()
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if reply == nil {
			return status.Error(codes.Internal, "tenetgrpc: "+method+": the reply is nil")
		}
		c, fresh := unary{}, maker(reply)
		for _, option := range options {
			c.sort(option)
		}
		value, err := retry.DoValue(ctx, o.executor(), o.Key(method), func(ctx context.Context) (any, error) {
			a := &answer{reply: fresh()}
			err := invoker(ctx, method, req, a.reply, cc, c.with(a)...)
			c.ended(a)
			if err != nil {
				err = mark(err, a.trailer, ctx.Err() != nil)
			}
			return a.reply, err
		})
		c.tell(value)
		if err != nil {
			return withStatus(err)
		}
		fill(reply, value)
		return nil
	}
}

// unary is one call. Its attempts may run at the same time and write only into their own answers.
type unary struct {
	options  []grpc.CallOption // the options that attempts may share
	headers  []*metadata.MD    // the targets of the caller's options Header, Trailer and Peer
	trailers []*metadata.MD
	peers    []*peer.Peer

	mu      sync.Mutex // guards answers
	answers []*answer  // of ended attempts
}

// answer is the result of an attempt.
type answer struct {
	reply           any
	header, trailer metadata.MD
	peer            peer.Peer
}

func (c *unary) sort(option grpc.CallOption) {
	switch o := option.(type) {
	case grpc.HeaderCallOption:
		c.headers = append(c.headers, o.HeaderAddr)
	case grpc.TrailerCallOption:
		c.trailers = append(c.trailers, o.TrailerAddr)
	case grpc.PeerCallOption:
		c.peers = append(c.peers, o.PeerAddr)
	default:
		c.options = append(c.options, option)
	}
}

// with makes the call options of an attempt.
func (c *unary) with(a *answer) []grpc.CallOption {
	list := make([]grpc.CallOption, 0, len(c.options)+3)
	return append(append(list, c.options...), grpc.Header(&a.header), grpc.Trailer(&a.trailer), grpc.Peer(&a.peer))
}

func (c *unary) ended(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, a)
}

// tell fills the caller's header, trailer and peer from the attempt that decided or, if the caller stopped the call, from the
// last one to end.
func (c *unary) tell(decided any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) == 0 {
		return
	}
	from := c.answers[len(c.answers)-1]
	for _, a := range c.answers {
		if a.reply == decided {
			from = a
		}
	}
	for _, h := range c.headers {
		*h = from.header
	}
	for _, t := range c.trailers {
		*t = from.trailer
	}
	for _, p := range c.peers {
		*p = from.peer
	}
}
