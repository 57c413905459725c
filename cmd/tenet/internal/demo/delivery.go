package demo

import (
	_ "embed" // for the file below
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Delivery is one webhook to be delivered.
type Delivery struct {
	ID           string // the job line's unique key
	Queue        string // the destination
	Method       string
	URL          string
	Headers      map[string]string
	Body         string
	ExpectStatus int // 0 is any status of success
}

// line is a job line; fields that matter to job stores only are left out.
type line struct {
	Type      string `json:"type"`
	Queue     string `json:"queue"`
	UniqueKey string `json:"unique_key"`
	Payload   struct {
		Method       string            `json:"method"`
		URL          string            `json:"url"`
		Headers      map[string]string `json:"headers"`
		Body         string            `json:"body"`
		ExpectStatus int               `json:"expect_status"`
	} `json:"payload"`
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

func parseDelivery(text string) (Delivery, error) {
	var l line
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return Delivery{}, err
	}
	p := l.Payload
	switch {
	case l.Type != "http":
		return Delivery{}, fmt.Errorf("type: %q is not http", l.Type)
	case l.UniqueKey == "":
		return Delivery{}, errors.New("unique_key: missing")
	case l.Queue == "":
		return Delivery{}, errors.New("queue: missing")
	}
	if u, err := url.Parse(p.URL); err != nil || u.Scheme != "http" || u.Host == "" {
		return Delivery{}, fmt.Errorf("payload.url: %q is not an http address", p.URL)
	}
	if p.Method == "" {
		p.Method = http.MethodPost
	}
	return Delivery{
		ID: l.UniqueKey, Queue: l.Queue, Method: p.Method, URL: p.URL, Headers: p.Headers, Body: p.Body, ExpectStatus: p.ExpectStatus,
	}, nil
}
