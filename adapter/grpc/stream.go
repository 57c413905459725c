package tenetgrpc

import (
	"context"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// StreamClientInterceptor establishes streams under the policies of their keys; the package documentation says up to
// which point a stream is repeated. It is safe for concurrent use.
func StreamClientInterceptor(o Options) grpc.StreamClientInterceptor {
	o = o.withDefaults()
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		e := establisher{
			ctx: ctx, executor: o.executor(), key: o.Key(method), oneAnswer: !desc.ServerStreams,
			open: func(ctx context.Context) (grpc.ClientStream, error) {
				return streamer(ctx, desc, cc, method, options...)
			},
		}
		if desc.ServerStreams && !desc.ClientStreams {
			return &serverStream{establisher: e, requested: make(chan struct{})}, nil
		}
		s, err := e.do(func(grpc.ClientStream) (any, error) { return nil, nil })
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// establisher opens a stream under a policy.
type establisher struct {
	ctx       context.Context // the caller's
	executor  *retry.Executor
	key       policy.Key
	open      func(context.Context) (grpc.ClientStream, error)
	oneAnswer bool // the server sends one message only
}

// do opens a stream and runs begin on it until both succeed. The stream's context then lives until the stream ends.
func (e *establisher) do(begin func(grpc.ClientStream) (first any, err error)) (*stream, error) {
	s, err := retry.DoValue(e.ctx, e.executor, e.key, func(ctx context.Context) (*stream, error) {
		opened, err := e.open(undated{ctx, e.ctx})
		if err != nil {
			return nil, mark(err, nil, ctx.Err() != nil)
		}
		first, err := begin(opened)
		if err != nil && err != io.EOF {
			return nil, mark(err, opened.Trailer(), ctx.Err() != nil)
		}
		release := retry.Detach(ctx)
		if over := ctx.Err(); over != nil && err == nil { // it ended first, and the stream with it
			return nil, mark(status.FromContextError(over).Err(), nil, true)
		}
		return &stream{ClientStream: opened, oneAnswer: e.oneAnswer, first: first, ended: err, release: release}, nil
	})
	if err != nil {
		return nil, withStatus(err)
	}
	if s.ended != nil {
		s.release()
	}
	return s, nil
}

// undated is an attempt's context with the caller's deadline. gRPC sends deadlines along, and a server must not end a
// long stream because an attempt to open it has a timeout.
type undated struct {
	context.Context
	caller context.Context
}

func (u undated) Deadline() (time.Time, bool) { return u.caller.Deadline() }

// stream is an established stream.
type stream struct {
	grpc.ClientStream
	oneAnswer bool
	first     any   // a message that was received while the stream was being established
	ended     error // io.EOF if the stream ended before a first message
	release   func()
}

// RecvMsg implements grpc.ClientStream.
func (s *stream) RecvMsg(m any) error {
	if s.ended != nil {
		return s.ended
	}
	if s.first != nil {
		fill(m, s.first)
		s.first = nil
		return nil
	}
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.oneAnswer {
		s.release()
	}
	return err
}

// serverStream is a call with one request and many answers. Nothing is sent before the caller waits for an answer.
type serverStream struct {
	establisher
	request   any
	requested chan struct{} // closed by CloseSend: request is complete

	mu          sync.Mutex // guards what follows
	closed      bool
	established *stream
	err         error
}

// SendMsg keeps the request.
func (s *serverStream) SendMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.request != nil {
		return status.Error(codes.Internal, "tenetgrpc: a second request on a stream that takes one")
	}
	s.request = m
	return nil
}

// CloseSend completes the request.
func (s *serverStream) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.requested)
	}
	return nil
}

// RecvMsg establishes the stream with its first call.
func (s *serverStream) RecvMsg(m any) error {
	if inner := s.current(); inner != nil {
		return inner.RecvMsg(m)
	}
	fresh := maker(m)
	inner, err := s.establish(func(opened grpc.ClientStream) (any, error) {
		first := fresh()
		return first, opened.RecvMsg(first)
	})
	if err != nil {
		return err
	}
	return inner.RecvMsg(m)
}

// Header establishes the stream, if need be, up to the headers.
func (s *serverStream) Header() (metadata.MD, error) {
	inner, err := s.establish(func(opened grpc.ClientStream) (any, error) {
		header, err := opened.Header()
		if header != nil || err != nil {
			return nil, err
		}
		return nil, opened.RecvMsg(&emptypb.Empty{}) // ended without headers: this returns its status
	})
	if err != nil {
		return nil, err
	}
	return inner.Header()
}

// Trailer implements grpc.ClientStream. It returns nil if no stream was established.
func (s *serverStream) Trailer() metadata.MD {
	inner := s.current()
	if inner == nil {
		return nil
	}
	return inner.Trailer()
}

// Context implements grpc.ClientStream.
func (s *serverStream) Context() context.Context {
	inner := s.current()
	if inner == nil {
		return s.ctx
	}
	return inner.Context()
}

// current returns the established stream, or nil.
func (s *serverStream) current() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.established
}

// establish opens the stream, sends the request and waits for what answered returns, once.
func (s *serverStream) establish(answered func(grpc.ClientStream) (any, error)) (*stream, error) {
	select {
	case <-s.requested:
	case <-s.ctx.Done():
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.established == nil && s.err == nil {
		s.established, s.err = s.do(func(opened grpc.ClientStream) (any, error) {
			if err := opened.SendMsg(s.request); err != nil && err != io.EOF { // io.EOF: receiving returns the cause
				return nil, err
			}
			if err := opened.CloseSend(); err != nil {
				return nil, err
			}
			return answered(opened)
		})
	}
	return s.established, s.err
}
