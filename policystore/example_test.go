package policystore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/policystore"
)

// Two servers publish at the same time: one of them is told that the document has changed.
func ExampleDocuments() {
	ctx := context.Background()
	store := memory.Open().Policies()
	first := policystore.Document{Name: "payments", Newest: 1, Current: 1}
	seen, err := store.Save(ctx, first, policystore.Revision{Document: "payments", Number: 1, Body: []byte("version: 1\n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	next := seen
	next.Newest, next.Current = 2, 2
	saved, err := store.Save(ctx, next, policystore.Revision{Document: "payments", Number: 2, Body: []byte("version: 1\n"), Parent: 1})
	fmt.Println(saved.Current, saved.Version, err)
	_, err = store.Save(ctx, next)
	fmt.Println(errors.Is(err, policystore.ErrConflict))
	// Output:
	// 2 2 <nil>
	// true
}
