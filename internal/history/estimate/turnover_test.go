package estimate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/history/estimate"
)

func TestTurnover(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	ago := func(days ...int) (all []time.Time) {
		for _, d := range days {
			all = append(all, now.AddDate(0, 0, -d))
		}
		return all
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		name     string
		created  []time.Time
		earlier  int
		replaced time.Duration
		slow     bool
	}{
		{"no nodes", nil, 0, 0, false},
		{"old nodes", ago(30, 20, 10), 3, 60 * day, true},
		{"old nodes of the current version", ago(30, 20, 10), 0, 60 * day, false},
		{"a fast pool", ago(3, 1, 2), 2, 6 * day, false},
		{"a clock that is ahead", ago(-1, 2), 1, 3 * day, false},
		{"old nodes of one day", ago(30, 30, 30), 3, 90 * day, false},
	} {
		got := estimate.TurnoverOf(c.created, c.earlier, now)
		if got.Nodes != len(c.created) || got.Earlier != c.earlier || got.Replaced() != c.replaced || got.IsSlow() != c.slow {
			t.Errorf("%s: %+v, replaced after %s, slow %t", c.name, got, got.Replaced(), got.IsSlow())
		}
	}
}

// TestIsKnown: in a young pool, or one without any turnover, the mean age says nothing about the life of a node.
func TestIsKnown(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ages []time.Duration
		want bool
	}{
		"no nodes":              {nil, false},
		"a young pool":          {[]time.Duration{10 * time.Minute, 5 * time.Minute, time.Minute}, false},
		"all of one day":        {[]time.Duration{300 * time.Hour, 299 * time.Hour, 298 * time.Hour}, false},
		"a pool with turnover":  {[]time.Duration{300 * time.Hour, 100 * time.Hour, 5 * time.Hour}, true},
		"one node of many left": {[]time.Duration{48 * time.Hour, time.Hour, time.Hour}, true},
	} {
		var created []time.Time
		for _, age := range c.ages {
			created = append(created, now.Add(-age))
		}
		if got := estimate.TurnoverOf(created, 1, now).IsKnown(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestTheEstimateFitsAPool: a simulated pool of 400 nodes with random scale-in. The estimate is near the simulated time.
func TestTheEstimateFitsAPool(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 40))
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	created := make([]time.Time, 400)
	for i := range created {
		created[i] = now
	}
	hour := func() { // four nodes of 400 in an hour: a mean life of a hundred hours
		now = now.Add(time.Hour)
		for range 4 {
			created[random.IntN(len(created))] = now
		}
	}
	for range 1000 {
		hour()
	}
	estimated, begin := estimate.TurnoverOf(created, len(created), now).Replaced(), now
	for left := len(created); left > 20; {
		hour()
		left = 0
		for _, at := range created {
			if !at.After(begin) {
				left++
			}
		}
	}
	if took := now.Sub(begin); estimated < took*7/10 || estimated > took*13/10 {
		t.Errorf("95 %% of the nodes were replaced after %s, estimated %s", took, estimated)
	}
}
