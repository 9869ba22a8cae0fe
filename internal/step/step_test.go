package step

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

type (
	action   string
	reason   string
	decision = Decision[action, reason]
)

const (
	cordon action = "Cordon"
	tag    action = "Tag"
)

var do, wait, fail = Verbs[action, reason]()

// A planner is a switch over facts.
func ExampleVerbs() {
	next := func(cordoned, drained bool) decision {
		switch {
		case !cordoned:
			return do(cordon)
		case !drained:
			return wait("Drain")
		}
		return do("Finish")
	}
	fmt.Println(next(false, false), next(true, false), next(true, true))
	// Output: Cordon Wait: Drain Finish
}

// TestTheTextOfADecision names the reason of a wait or failure.
func TestTheTextOfADecision(t *testing.T) {
	for want, d := range map[string]decision{"Wait: Report": wait("Report"), "Cordon": do(cordon), "Fail: Stopped": fail("Stopped")} {
		if got := d.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if d.Waits() != (d.Do == "Wait") {
			t.Errorf("%s waits: %t", d, d.Waits())
		}
	}
}

// played runs a loop over decisions, the last of which is done. It returns the pauses.
func played(limits Limits, after time.Duration, decisions ...decision) (pauses []time.Duration, err error) {
	n := 0
	err = Run(limits, func() (Pass[action, reason], error) {
		p := Pass[action, reason]{Decision: decisions[n], Done: n == len(decisions)-1, After: after}
		n++
		return p, nil
	}, func(d time.Duration) error {
		pauses = append(pauses, d)
		return nil
	})
	return pauses, err
}

// TestALoopPausesWhenNoChangeIsSeen: a repeated action waits, and a first action goes on at once.
func TestALoopPausesWhenNoChangeIsSeen(t *testing.T) {
	got, err := played(Limits{Pause: time.Second}, 0, do(cordon), do(tag), do(tag), do(tag), do(cordon), do(tag), do(tag))
	if want := []time.Duration{0, 0, time.Second, time.Second, 0, 0}; err != nil || !slices.Equal(got, want) {
		t.Errorf("pauses %v and error %v, want %v", got, err, want)
	}
	got, err = played(Limits{Pause: time.Second}, time.Minute, do(tag), do(tag), do(tag))
	if want := []time.Duration{time.Minute, time.Minute}; err != nil || !slices.Equal(got, want) {
		t.Errorf("pauses %v and error %v, want %v", got, err, want)
	}
}

// TestALoopEndsWithoutAChange at the limit. A wait may last, also between two equal actions.
func TestALoopEndsWithoutAChange(t *testing.T) {
	for name, test := range map[string]struct {
		decisions []decision
		times     int
	}{
		"the same action":                  {[]decision{do(tag), do(cordon), do(cordon), do(cordon), do(tag)}, 3},
		"the same failure":                 {[]decision{fail("Stopped"), fail("Stopped"), fail("Stopped"), do(tag)}, 3},
		"other actions":                    {[]decision{do(tag), do(cordon), do(tag), do(cordon), do(tag), do(cordon)}, 0},
		"other failures":                   {[]decision{fail("A"), fail("B"), fail("A"), do(tag)}, 0},
		"a wait":                           {[]decision{wait("Report"), wait("Report"), wait("Report"), wait("Report"), do(tag)}, 0},
		"a wait between two equal actions": {[]decision{do(tag), do(tag), wait("Report"), do(tag), do(tag), wait("Report"), do(tag)}, 0},
		"a third action that is the end":   {[]decision{do(tag), do(tag), do(tag)}, 0},
	} {
		_, err := played(Limits{Times: 3}, 0, test.decisions...)
		var none *NoChange
		switch {
		case test.times == 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.times > 0 && (!errors.As(err, &none) || none.Times != test.times):
			t.Errorf("%s: %v, want the error after %d times", name, err, test.times)
		}
	}
}

// TestRepeatsCountsTheEndOfARow: after every course of six decisions, the count is the number of equal actions at its end.
func TestRepeatsCountsTheEndOfARow(t *testing.T) {
	kinds := []decision{do(tag), do(cordon), wait("Report"), fail("Stopped")}
	for course := range 1 << 12 {
		var repeats Repeats[action, reason]
		var said []decision
		got := 0
		for i := range 6 {
			d := kinds[course>>(2*i)&3]
			said, got = append(said, d), repeats.Add(d)
		}
		last, want := said[len(said)-1], 0
		for i := len(said) - 1; i >= 0 && said[i] == last && !last.Waits(); i-- {
			want++
		}
		if got != want {
			t.Fatalf("%v: %d times, want %d", said, got, want)
		}
	}
}

// TestTheErrorNamesTheAction that showed no change.
func TestTheErrorNamesTheAction(t *testing.T) {
	_, err := played(Limits{Times: 2}, 0, do(tag), do(tag), do(cordon))
	if want := "action Tag was done 2 times, and no change is visible"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestALoopEndsWithTheErrorOfItsParts, a pass or a pause.
func TestALoopEndsWithTheErrorOfItsParts(t *testing.T) {
	broken := errors.New("broken")
	next := func() (Pass[action, reason], error) { return Pass[action, reason]{Decision: do(tag)}, nil }
	if err := Run(Limits{}, next, func(time.Duration) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the pause failed, and the loop ended with %v", err)
	}
	err := Run(Limits{}, func() (Pass[action, reason], error) { return Pass[action, reason]{Done: true}, broken }, nil)
	if !errors.Is(err, broken) {
		t.Errorf("the pass failed, and the loop ended with %v", err)
	}
}
