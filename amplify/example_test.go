package amplify_test

import (
	"fmt"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/policyfile"
)

func ExampleNew() {
	graph, err := policyfile.ParseGraph("graph.yaml", []byte(`
version: 1
nodes: [web, api, db]
edges:
  - {from: web, to: api, attempts: 4}
  - {from: api, to: db, attempts: 4, failures: 0.1}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := amplify.New(graph, nil, nil) // no edge names the key of a policy
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range m.Nodes {
		fmt.Printf("%s: %g at worst, %.4g expected\n", n.Name, n.Requests.Worst, n.Requests.Expected)
	}
	// Output:
	// web: 1 at worst, 1 expected
	// api: 4 at worst, 1 expected
	// db: 16 at worst, 1.111 expected
}
