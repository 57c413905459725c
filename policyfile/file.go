package policyfile

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
)

// File is a document as a Go value, for programs that write one. A zero field is left out; what a document says with an
// explicit 0 or null cannot be represented here. To read a document, use [Parse].
type File struct {
	// Version of the document's language; always 1.
	Version int `json:"version"`
	// Declared lists names that code registers, so that they are not taken for mistakes.
	Declared Declared `json:"declared"`
	// Limits tighten the limits of the document's policies.
	Limits Limits `json:"limits"`
	// Defaults apply to fields that an entry does not set.
	Defaults Defaults `json:"defaults"`
	// Budgets by name; policies share them by naming them.
	Budgets map[string]policy.Budget `json:"budgets"`
	// Policies of calls by key.
	Policies map[string]policy.Policy `json:"policies"`
	// Queues of jobs by name.
	Queues map[string]policy.Queue `json:"queues"`
	// Jobs by type.
	Jobs map[string]policy.Job `json:"jobs"`
	// Consumers by name.
	Consumers map[string]policy.Consumer `json:"consumers"`
	// Producers by name.
	Producers map[string]policy.Producer `json:"producers"`
	// Prove is read by tenet policy prove.
	Prove Prove `json:"prove"`
}

// Prove tells tenet policy prove what the policies do not: the outages to survive and the findings that are accepted.
type Prove struct {
	// Outages lists the outages that the work of a policy must survive.
	Outages []Outage `json:"outages"`
	// Suppress lists the accepted findings.
	Suppress []Suppression `json:"suppress"`
}

// Outage is an outage that the work of a policy must survive: every attempt fails immediately until it is over.
type Outage struct {
	// Path of the policy, for example jobs.report:build or policies.users.Get. Required.
	Path string `json:"path"`
	// Lasts is the longest that the outage may last. Required.
	Lasts time.Duration `json:"lasts" check:"min=0.001"`
}

// Suppression accepts a finding of tenet policy prove.
type Suppression struct {
	// Code of the finding, for example zero-delay. Required.
	Code string `json:"code"`
	// Path of the finding, for example consumers.orders.steps.process.retry.backoff. Required.
	Path string `json:"path"`
	// Reason why the finding is accepted. Required.
	Reason string `json:"reason"`
}

// Declared lists names that the document uses and code registers.
type Declared struct {
	// Classes of errors beyond those that Tenet knows.
	Classes []policy.Class `json:"classes"`
	// Classifiers beyond default, http, grpc and exit.
	Classifiers []string `json:"classifiers"`
	// Triggers of hedges beyond fixed, p50, p90, p95 and p99.
	Triggers []string `json:"triggers"`
	// Budgets beyond those of the document itself.
	Budgets []string `json:"budgets"`
}

// Limits tighten the limits of each surface.
type Limits struct {
	// Calls in this process.
	Calls policy.Tightening `json:"calls"`
	// Jobs in a store.
	Jobs policy.Tightening `json:"jobs"`
	// Steps of pipelines.
	Steps policy.Tightening `json:"steps"`
}

// Defaults of each surface.
type Defaults struct {
	// Calls in this process.
	Calls CallDefaults `json:"calls"`
	// Jobs in a store.
	Jobs policy.Job `json:"jobs"`
	// Steps of pipelines.
	Steps policy.Step `json:"steps"`
}

// CallDefaults apply to fields that a call's policy does not set, and to calls without a policy.
type CallDefaults struct {
	// Retry bounds repetition.
	Retry policy.Retry `json:"retry"`
	// Hedge starts further attempts while a slow one is running.
	Hedge policy.Hedge `json:"hedge" check:"null"`
	// Circuit is a breaker that stops calls after repeated failures.
	Circuit policy.Circuit `json:"circuit" check:"null"`
	// Limit bounds how many attempts of a key run at a time and start per period. Each key has its own.
	Limit policy.Limit `json:"limit" check:"null"`
}

// Marshal writes the document as YAML, fields in the order of their declaration, names sorted, durations in seconds. A
// zero version is written as 1. It does not check the document; [Parse] does.
func (f File) Marshal() ([]byte, error) {
	f.Version = cmp.Or(f.Version, version)
	node, err := encode(reflect.ValueOf(f))
	if err != nil {
		return nil, err
	}
	return dump(node)
}

// dump writes a node as YAML.
func dump(node *yaml.Node) ([]byte, error) {
	text, err := yaml.Dump(node, yaml.WithV4Defaults(), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	return text, nil
}

func encode(v reflect.Value) (*yaml.Node, error) {
	switch {
	case fields.IsDuration(v.Type()):
		return number(fields.Seconds(time.Duration(v.Int()))), nil
	case v.Kind() == reflect.Struct:
		return encodeStruct(v)
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Struct:
		return encodeMap(v)
	case v.Kind() == reflect.Slice:
		return encodeList(v)
	case v.Kind() == reflect.String:
		return text(v.String()), nil
	case v.Kind() == reflect.Float64:
		return number(v.Float()), nil
	}
	node := &yaml.Node{} // integers, booleans and the free values of fetch.extra
	if err := node.Encode(v.Interface()); err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	return node, nil
}

func encodeList(v reflect.Value) (*yaml.Node, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for i := range v.Len() {
		item, err := encode(v.Index(i))
		if err != nil {
			return nil, err
		}
		list.Content = append(list.Content, item)
	}
	return list, nil
}

func encodeStruct(v reflect.Value) (*yaml.Node, error) {
	object := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fields.Of(v.Type()) {
		field := v.Field(f.Index)
		if field.IsZero() {
			continue
		}
		node, err := encode(field)
		if err != nil {
			return nil, err
		}
		if len(node.Content) > 0 || node.Kind == yaml.ScalarNode {
			object.Content = append(object.Content, text(f.Name), node)
		}
	}
	return object, nil
}

func encodeMap(v reflect.Value) (*yaml.Node, error) {
	entries := map[string]reflect.Value{}
	for it := v.MapRange(); it.Next(); {
		entries[it.Key().String()] = it.Value()
	}
	object := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		node, err := encode(entries[name])
		if err != nil {
			return nil, err
		}
		object.Content = append(object.Content, text(name), node)
	}
	return object, nil
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// number writes f so that YAML and JSON both read a number.
func number(f float64) *yaml.Node {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if f == float64(int64(f)) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(int64(f), 10)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: s}
}
