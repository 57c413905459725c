package protocol_test

import (
	"crypto/ed25519"
	"fmt"

	"github.com/tenetdev/tenet/controlplane/protocol"
)

func ExampleEnvelope_Verify() {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	e := protocol.Envelope{Document: "shop", Revision: 1, Body: "version: 1\n"}
	e.Sign(private)
	fmt.Println(e.Verify(public))
	e.Body = "version: 2\n"
	fmt.Println(e.Verify(public))
	// Output:
	// <nil>
	// protocol: the signature does not match the content: revision 1 of "shop"
}
