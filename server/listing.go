package server

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/server/api"
)

// PageQuery is the page of a list. It is exported, as is DocumentName, because inputs embed it: huma leaves out embedded types
// that are not.
type PageQuery struct {
	Cursor api.Cursor `query:"cursor" maxLength:"1024"`
	Limit  int        `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// listing is a list of a store that the API returns in pages: its name in cursors, and the place of an item in it.
type listing[P, T any] struct {
	name  string
	place func(T) P
}

// page reads a page, and returns the cursor of the next one: empty if this one is not full.
func (l listing[P, T]) page(ctx context.Context, in PageQuery, read func(ctx context.Context, after P, limit int) ([]T, error)) (list []T, next api.Cursor, err error) {
	var after P
	if err := in.Cursor.Position(l.name, &after); err != nil {
		return nil, "", fmt.Errorf("%w: %w", errInvalid, err)
	}
	if list, err = read(ctx, after, in.Limit); err == nil && len(list) == in.Limit {
		next = api.NewCursor(l.name, l.place(list[len(list)-1]))
	}
	return list, next, err
}

// orEmpty returns a list that JSON writes as [] if there is none.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
