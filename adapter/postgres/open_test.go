package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/adapter/postgres"
)

// TestO3AnUnreadableAddressIsNotShown: pgx shows it, with some passwords.
func TestO3AnUnreadableAddressIsNotShown(t *testing.T) {
	for _, url := range []string{
		"postgres://ann:se%cret@host/db", "postgres://ann:sec/ret@host/db", "postgres://ann:sec#ret@host:port/db", "postgres://ann:sec ret@host/db",
		"postgres://ann:sec?ret@host/db", "host=h password='secret port=x", "postgres://ann:se:ret/db@host:1", "user=ann password=secret port=x", "postgres://ann:se:c%ret@host/db",
		"host=h password = 'secret' port=x", `host=h password='s\'ecret' port=x`, "postgres://ann:a%retb@host/db",
		"postgres://ann:secret@host/db?sslmode=nope", "postgres://ann:secret@host/db?pool_max_conns=x", "postgres://h/db?password=sec%ret&x=1",
		"postgres://ann:[sec]ret@host/db",
	} {
		_, err := postgres.Open(context.Background(), url, postgres.Options{})
		if err == nil {
			t.Errorf("%s: no error", url)
			continue
		}
		for _, part := range []string{"sec", "ret", "se:", "%re"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s\n%v", url, err)
				break
			}
		}
	}
}
