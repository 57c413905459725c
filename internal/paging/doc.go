// Package paging goes through rows that are read page by page.
package paging
