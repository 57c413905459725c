package ui

import (
	"github.com/tenetdev/tenet/server/api"
)

func workersPage() *page {
	return &page{path: "workers", nav: "Workers", title: "Workers", file: "workers", moving: true, load: func(r *request) (any, error) {
		var list api.Workers
		err := r.get("/v1/workers", nil, &list)
		return list, err
	}}
}
