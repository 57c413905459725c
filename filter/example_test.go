package filter_test

import (
	"fmt"

	"github.com/tenetdev/tenet/filter"
)

func ExampleParse() {
	fields := []filter.Field{{Name: "state"}, {Name: "type", Prefix: true}, {Name: "meta", Nested: true}}
	terms, err := filter.Parse(`state:dead,cancelled type:"mail:*" meta.tenant:acme`, fields)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range terms {
		fmt.Println(t.Name(), t.Values)
	}
	_, err = filter.Parse("staet:dead", fields)
	fmt.Println(err)
	// Output:
	// state [{dead false} {cancelled false}]
	// type [{mail: true}]
	// meta.tenant [{acme false}]
	// filter: character 1: unknown field "staet"; did you mean state?
}
