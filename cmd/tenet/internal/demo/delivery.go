package demo

import (
	_ "embed" // for the file below
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/tenetdev/tenet/adapter/http/httpjob"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobline"
)

// Delivery is one webhook to be delivered.
type Delivery struct {
	ID      string // the job line's unique key
	Queue   string // the destination
	Request httpjob.Payload
}

// deliveries is a thousand webhooks of an imaginary shop, as job lines. It is a variable because go:embed needs one; nothing
// changes it. The hosts of the URLs do not exist.
//
//go:embed deliveries.jsonl
var deliveries string

// Deliveries returns the demo's deliveries.
func Deliveries() ([]Delivery, error) { return parseDeliveries(deliveries) }

// parseDeliveries reads job lines of type http. Their unique keys must differ.
func parseDeliveries(lines string) ([]Delivery, error) {
	var list []Delivery
	seen := map[string]bool{}
	number := 0
	for text := range strings.Lines(lines) {
		number++
		if strings.TrimSpace(text) == "" {
			continue
		}
		d, err := parseDelivery(text)
		if err == nil && seen[d.ID] {
			err = fmt.Errorf("unique_key: %q was used before", d.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("deliveries: line %d: %w", number, err)
		}
		seen[d.ID] = true
		list = append(list, d)
	}
	return list, nil
}

func parseDelivery(text string) (d Delivery, err error) {
	r, err := jobline.Parse([]byte(text))
	switch {
	case err != nil:
		return d, err
	case r.Flow != "":
		return d, errors.New("flow: deliveries stand on their own")
	case r.Type != httpjob.Type:
		return d, fmt.Errorf("type: %q is not http", r.Type)
	case r.UniqueKey == "":
		return d, errors.New("unique_key: missing")
	case r.Queue == "":
		return d, errors.New("queue: missing")
	}
	d = Delivery{ID: r.UniqueKey, Queue: r.Queue}
	payload, _ := r.Payload.(json.RawMessage)
	return d, json.Unmarshal(payload, &d.Request)
}

// line is the delivery's job line, with the endpoint's address as its host.
func (d Delivery) line(address string) (jobline.Line, error) {
	p := d.Request
	u, err := url.Parse(p.URL)
	if err != nil {
		return jobline.Line{}, err
	}
	u.Host = address
	p.URL, p.Headers = u.String(), maps.Clone(p.Headers)
	if p.Headers == nil {
		p.Headers = map[string]string{}
	}
	p.Headers[DeliveryHeader] = d.ID
	payload, err := json.Marshal(p)
	return jobline.Line{Type: httpjob.Type, Queue: d.Queue, UniqueKey: d.ID, Payload: payload}, err
}
