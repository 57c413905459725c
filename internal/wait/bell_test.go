package wait

import (
	"context"
	"testing"
)

func TestEveryListenerIsNotifiedOnceUntilItListensAgain(t *testing.T) {
	var b Bell
	one, two := b.Listen(t.Context()), b.Listen(t.Context())
	b.Ring()
	b.Ring()
	for _, c := range []<-chan struct{}{one, two} {
		if _, open := <-c; !open || len(c) != 0 {
			t.Error("not notified, or notified twice")
		}
	}
	b.Ring()
	if len(one) != 1 {
		t.Error("not notified again")
	}
}

func TestChannelsEndWithTheirContextAndWithTheBell(t *testing.T) {
	var b Bell
	ctx, cancel := context.WithCancel(t.Context())
	ended, kept := b.Listen(ctx), b.Listen(t.Context())
	cancel()
	if _, open := <-ended; open {
		t.Error("open after its context ended")
	}
	b.Close()
	b.Close()
	b.Ring()
	if _, open := <-kept; open {
		t.Error("open after the bell was closed")
	}
	if _, open := <-b.Listen(t.Context()); open {
		t.Error("a closed bell can be listened to")
	}
}

func TestASignalIsNotifiedWhileItIsJoined(t *testing.T) {
	var b Bell
	c := NewSignal()
	leave := b.Join(c)
	b.Ring()
	leave()
	if len(c) != 1 {
		t.Error("not notified")
	}
	<-c
	b.Ring()
	if len(c) != 0 {
		t.Error("notified after it left")
	}
	b.Join(c)
	b.Close()
	b.Ring()
	c.Send() // panics if the bell has closed it
}
