package report

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestJoined: a node that rebooted later has the time of its registration.
func TestJoined(t *testing.T) {
	for name, test := range map[string]struct {
		registered, ready time.Duration // after the creation of the instance; negative: none
		want              time.Duration
		isKnown           bool
		interrupted       time.Duration // after the creation; zero: never
	}{
		"without a Node":              {-1, -1, 0, false, 0},
		"not Ready yet":               {time.Minute, -1, time.Minute, true, 0},
		"Ready after the first boot":  {time.Minute, 2 * time.Minute, 2 * time.Minute, true, 0},
		"Ready after a later boot":    {time.Minute, 5 * time.Hour, time.Minute, true, 0},
		"registered again":            {3 * time.Hour, 5 * time.Hour, 0, false, 0},
		"without a time of the cloud": {0, 5 * time.Hour, 0, false, 0},
		"a reboot in the first hour":  {time.Minute, 7 * time.Minute, time.Minute, true, 5 * time.Minute},
		"a reboot much later":         {time.Minute, 2 * time.Minute, 2 * time.Minute, true, 5 * time.Hour},
	} {
		n := NodeFacts{Created: day(2)}
		if test.registered >= 0 {
			n.Registered = n.Created.Add(test.registered)
		}
		if test.ready >= 0 {
			n.Ready = n.Created.Add(test.ready)
		}
		if test.interrupted > 0 {
			n.Interrupted = n.Created.Add(test.interrupted)
		}
		if got, isKnown := n.joined(); got != test.want || isKnown != test.isKnown {
			t.Errorf("%s: %s, known: %t; want %s, %t", name, got, isKnown, test.want, test.isKnown)
		}
	}
}

// TestWithin: only the time of the report counts.
func TestWithin(t *testing.T) {
	for name, test := range map[string]struct {
		from, to int // days
		want     time.Duration
	}{
		"before the report":      {-9, -1, 0},
		"into the report":        {-1, 1, 24 * time.Hour},
		"within the report":      {1, 3, 48 * time.Hour},
		"after the report":       {40, 50, 0},
		"beyond the report":      {29, 50, 24 * time.Hour},
		"of no length":           {3, 3, 0},
		"to the begin":           {-3, 0, 0},
		"from the begin":         {0, 2, 48 * time.Hour},
		"to the end":             {28, 30, 48 * time.Hour},
		"from the end":           {30, 32, 0},
		"in the wrong order":     {3, 1, 0},
		"longer than the report": {-9, 50, now.Sub(since)},
	} {
		if got := facts().within(day(test.from), day(test.to)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestEndOf: a capture without an end lasts until now.
func TestEndOf(t *testing.T) {
	ended := capture(2, v1alpha1.PhaseSucceeded, 0, 30)
	running := capture(2, v1alpha1.PhaseRunningTrial, 0, -1)
	open := capture(2, v1alpha1.PhaseFailed, 0, -1)
	for name, test := range map[string]struct {
		p    v1alpha1.Prototype
		want time.Time
	}{
		"ended":           {ended, day(2).Add(30 * time.Minute)},
		"running":         {running, now},
		"with open steps": {open, now},
		"without steps":   {v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, now},
	} {
		if got := facts().endOf(&test.p); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
