package audit_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/canonical"
)

// broken is a source whose Read fails.
type broken struct{}

var errBroken = errors.New("unreadable disk")

func (broken) Read(context.Context, string, func(string, []byte) error) error { return errBroken }

func TestA3ASourceThatFailsIsAnError(t *testing.T) {
	ctx := context.Background()
	for name, read := range map[string]func() error{
		"verify":  func() error { _, err := audit.Verify(ctx, broken{}, audit.VerifyOptions{}); return err },
		"replay":  func() error { _, err := audit.Replay(ctx, broken{}, audit.ReplayOptions{}); return err },
		"stats":   func() error { _, err := audit.Statistics(ctx, broken{}, audit.Spill{}); return err },
		"what if": func() error { _, err := audit.WhatIf(ctx, broken{}, setOf(), audit.ReplayOptions{}); return err },
		"explain": func() error { _, err := audit.Explain(ctx, broken{}, "w"); return err },
	} {
		if err := read(); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func kinds(r *audit.VerifyReport) (list []string) {
	for _, f := range r.Faults {
		list = append(list, fmt.Sprint(f.Kind, " ", f.Index))
	}
	return list
}

func TestA3DamageInManyPlaces(t *testing.T) {
	log := plain(t, "a", 0, 10)
	forged := func(i int, reason string) []byte {
		e := parsed(t, log[i])
		e.Reason = "forged"
		e.ID = reason
		return sealed(t, &e)
	}
	rubbish := []byte("rubbish")
	many := make(lines, 5000)
	for i := range many {
		many[i] = rubbish
	}
	b := plain(t, "b", 100, 5)
	for name, c := range map[string]struct {
		log  lines
		want []string
	}{
		"more lines than are kept":              {append(many, log...), []string{"inserted 0", "changed 4096"}},
		"two lines for one event":               {slices.Concat(log[:3], lines{rubbish, rubbish}, log[4:]), []string{"changed 3", "inserted 4"}},
		"a second last event, delivered twice":  {append(log.clone(), forged(9, "x"), forged(9, "x")), []string{"inserted 10"}},
		"two events beside the last":            {append(log.clone(), forged(9, "x"), forged(9, "y")), []string{"inserted 10"}},
		"an event beside an old one":            {append(log.clone(), forged(3, "x")), []string{"inserted 10"}},
		"a line after the end of another chain": {slices.Concat(b, log[:5], lines{rubbish}, log[5:]), []string{"changed 10"}},
	} {
		if r := verify(t, c.log); !slices.Equal(kinds(r), c.want) {
			t.Errorf("%s: %v, want %v", name, kinds(r), c.want)
		}
	}
}

func TestA3HeadsOfAnUnreadableOpeningProveNothing(t *testing.T) {
	for name, heads := range map[string]any{"not a list": "none", "not a hash": []audit.Head{{ChainID: "a", Seq: 1, Hash: "abc"}}} {
		event := map[string]any{
			"schema_version": 1, "event_id": eventID(1), "event_type": "chain_opened", "timestamp": "2026-03-01T12:00:00Z",
			"chain_id": "b", "seq": 1, "heads": heads,
		}
		raw, err := canonical.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		event["hash"] = hex.EncodeToString(sum[:])
		if raw, err = canonical.Marshal(event); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, lines{raw}); !r.Intact() || r.Events != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestA4StoryOfAnOperatorAndOfAnExternalDelay(t *testing.T) {
	log := chained(t, "a", []audit.Event{
		{ID: eventID(1), Type: audit.RetryAttempt, Time: begin, WorkID: "w", WorkSeq: 1, Decision: "retry", Reason: "retry", DelayNS: 5, External: true},
		{ID: eventID(2), Type: audit.OperatorAction, Time: begin, WorkID: "w", WorkSeq: 2, Action: "requeue", Actor: "ann", Detail: "by hand"},
	})
	s, err := audit.Explain(context.Background(), log, "w")
	if err != nil || len(s.Steps) != 2 || len(s.Steps[0].Fields) != 0 || s.Steps[1].Detail != "requeue, by ann, by hand" {
		t.Errorf("%+v, %v", s, err)
	}
}
