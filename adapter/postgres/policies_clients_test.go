package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/policystore"
)

// TestS3RemovingClientsDoesNotWaitForThoseThatAreSaved: they could deadlock, as a save locks clients in the order of their names, a removal in that of their last
// contact.
func TestS3RemovingClientsDoesNotWaitForThoseThatAreSaved(t *testing.T) {
	db, schema := open(t)
	store := db.Policies()
	list := make([]policystore.Client, 2)
	seen := time.Now().Add(-time.Hour)
	for i := range list {
		list[i] = policystore.Client{Document: "d", ID: fmt.Sprint(i), LastSeen: seen.Add(-time.Duration(i) * time.Minute)}
	}
	if err := store.SaveClients(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	tx, err := pools[url].Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	lock := `SELECT FROM ` + pgx.Identifier{schema, "policy_client"}.Sanitize() + ` WHERE id = $1 FOR UPDATE NOWAIT`
	if _, err := tx.Exec(t.Context(), lock, "0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // it must not wait for the transaction
	defer cancel()
	if n, err := store.RemoveClients(ctx, time.Now(), 10); err != nil || n != 1 {
		t.Errorf("%d removed, %v; want the one that is not being saved", n, err)
	}
}
