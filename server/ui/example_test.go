package ui_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/ui"
)

// emptyLog is an audit log without events.
type emptyLog struct{}

func (emptyLog) Read(context.Context, string, func(string, []byte) error) error { return nil }
func (emptyLog) Heads(context.Context) ([]audit.Head, error)                    { return nil, nil }

func Example() {
	m := memory.Open()
	s, err := server.New(context.Background(), server.Options{
		Stores:   server.Stores{Jobs: m.Jobs(), Records: m.Idempotency(), Audit: emptyLog{}, Policies: m.Policies()},
		ReadOnly: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	u, err := ui.New(s, ui.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Mount("/ui/", u.Handler())
	pages := httptest.NewServer(s.Handler())
	defer pages.Close()
	answer, err := pages.Client().Get(pages.URL + "/ui/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status, answer.Header.Get("Content-Type"))
	// Output: 200 OK text/html; charset=utf-8
}
