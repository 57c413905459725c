package pgpipe_test

import (
	"fmt"

	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
)

// ParseURL removes the options of the table from the URL; the rest is the server's address.
func ExampleParseURL() {
	server, o, err := pgpipe.ParseURL("postgres://app@db/shop?sslmode=require&table=work.orders&id=order_no&done=shipped_at&lease=2m")
	fmt.Println(server, err)
	fmt.Println(o.Table, o.ID, o.Done, o.Lease)

	_, _, err = pgpipe.ParseURL("postgres://db/shop?table=orders&lease=soon")
	fmt.Println(err)
	// Output:
	// postgres://app@db/shop?sslmode=require <nil>
	// work.orders order_no shipped_at 2m0s
	// postgres: lease=soon: write a duration above 0, such as 30s
}
