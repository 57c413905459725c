package address_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/internal/address"
)

// options are read by read, as an adapter does.
type options struct {
	Name  string
	Lease time.Duration
	Size  int
	On    bool
}

func read(query string, more ...string) (o options, rest string, err error) {
	p, err := address.ReadParameters(query)
	if err != nil {
		return o, "", err
	}
	o.Name = p.Text("name")
	p.Duration("lease", &o.Lease)
	p.Number("size", &o.Size)
	p.Switch("on", &o.On)
	values, err := p.Only(more...)
	return o, values.Encode(), err
}

func TestParametersAreReadByTheirTypes(t *testing.T) {
	o, rest, err := read("name=a%20b&lease=2m&size=7&on=true&heartbeat=3", "heartbeat", "vhost")
	if diff := cmp.Diff(options{"a b", 2 * time.Minute, 7, true}, o); diff != "" || rest != "heartbeat=3" || err != nil {
		t.Errorf("%s%q, %v", diff, rest, err)
	}
	if o, rest, err := read("lease="); o != (options{}) || rest != "" || err != nil {
		t.Errorf("%+v, %q, %v", o, rest, err)
	}
}

func TestAWrongParameterIsAnErrorThatSaysWhatToWrite(t *testing.T) {
	for query, want := range map[string]string{
		"lease=soon":       "lease=soon: write a duration above 0, such as 30s",
		"lease=0s":         "lease=0s: write a duration above 0, such as 30s",
		"size=0":           "size=0: write a whole number above 0",
		"size=many&on=yes": "size=many: write a whole number above 0",
		"on=perhaps":       "on=perhaps: write true or false",
		"nam=x":            `unknown parameter "nam"; accepted are name, lease, size, on, heartbeat`,
		"size=1&size=2":    `the parameter "size" is given 2 times; give it once`,
		"z=1&a=2":          `unknown parameter "a"; accepted are name, lease, size, on, heartbeat`,
		"name=%zz":         `the parameters cannot be read: invalid URL escape "%zz"`,
	} {
		if _, _, err := read(query, "heartbeat"); err == nil || err.Error() != want {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestParametersThatAreNotReadAreKept(t *testing.T) {
	p, err := address.ReadParameters("table=orders&sslmode=require")
	if err != nil || p.Text("table") != "orders" {
		t.Fatal(err)
	}
	if rest, err := p.Rest(); rest.Encode() != "sslmode=require" || err != nil {
		t.Errorf("%v, %v", rest, err)
	}
}
