package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/machine"
)

// TestLatencyTable: the table has all latencies and the original's values. Changed values are marked.
func TestLatencyTable(t *testing.T) {
	run := func(defaults bool) *Capture {
		cloud, machines := latencies(defaults)
		return &Capture{Latencies: set(cloud, machines), Donor: Times{OutOfService: 72 * time.Second}}
	}
	r := Report{Capture: run(false), Defaults: run(true)}
	var text strings.Builder
	if err := r.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| publishing | 30 min | **45 s** | **45 s** |", "| installation | 105 s | 105 s | **1 s** |", "| an image pull | 12 s | 12 s | **1 s** |",
		"| donor out of service | the original: 113 s | 72.0 s | 72.0 s |",
	} {
		if !strings.Contains(text.String(), line+"\n") {
			t.Errorf("%q is not in\n%s", line, &text)
		}
	}
	with := *run(false)
	with.TimeScale, with.Command = 1, CommandCost{Wall: time.Minute, CPU: time.Second, PeakMemory: 1 << 20}
	with.Replacement = &Replacement{Command: CommandCost{CPU: 2 * time.Second, PeakMemory: 2 << 20}, Requests: Requests{Counted: 7, Polls: 3},
		Simulated: 90 * time.Second}
	with.Trial = &Trial{
		Command: CommandCost{CPU: 3 * time.Second, PeakMemory: 3 << 20}, Requests: Requests{Counted: 9, Polls: 4},
		Trial: 3 * time.Minute, Join: 40 * time.Second, Soak: 2 * time.Minute,
	}
	text.Reset()
	if err := (Report{Capture: &with}).Markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| a capture whose donor returns | CPU 1.00 s, 1.0 MiB, 0 requests and 0 polls, 1.0 min of the cloud's time | at most 160 s |",
		"| a capture with a removed donor, and a pool that grew before | CPU 2.00 s, 2.0 MiB, 7 requests and 3 polls, " +
			"1.5 min of the cloud's time | at most 180 s |",
		"| a trial next to the pool, from begin to verdict | 180.0 s (node Ready after 40.0 s, soak 120.0 s) |  |",
		"| of this, Kamino alone: without the cloud, the node and the soak | 20.0 s | at most 60 s |",
		"| what the trial adds to a capture | CPU 2.00 s, 9 requests and 4 polls |  |",
	} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("%q is not in\n%s", line, &text)
		}
	}
	dear := Capture{Command: CommandCost{CPU: time.Second}, Yardstick: 100 * time.Millisecond, Donor: Times{OutOfService: time.Second, Drain: time.Second}}
	if missed := (Report{Capture: &dear}).Missed(); !slices.Equal(missed, []string{"CPU"}) {
		t.Errorf("a command that costs ten times a look at the nodes is beyond: %v", missed)
	}
	dear.Yardstick = 300 * time.Millisecond
	if missed := (Report{Capture: &dear}).Missed(); len(missed) > 0 {
		t.Errorf("one that costs three times is beyond: %v", missed)
	}
	long := Capture{
		TimeScale: 2, Yardstick: time.Second, Donor: Times{OutOfService: time.Second, Drain: time.Second},
		Command: CommandCost{Wall: maxReturned/2 + time.Second}, Replacement: &Replacement{Simulated: maxReplaced + time.Second},
	}
	if missed := (Report{Capture: &long}).Missed(); !slices.Equal(missed, []string{"time of a capture with a removed donor", "time of a capture"}) {
		t.Errorf("captures that take too long are beyond: %v", missed)
	}
	slow := Capture{Yardstick: time.Second, Donor: Times{OutOfService: time.Second, Drain: time.Second},
		Trial: &Trial{Trial: time.Hour, Command: CommandCost{PeakMemory: maxMemory + 1}}}
	if missed := (Report{Capture: &slow}).Missed(); !slices.Equal(missed, []string{"trial's own time", "memory with a trial"}) {
		t.Errorf("a trial without an hour's wait is beyond: %v", missed)
	}
	for _, l := range set(azure.Latencies{}, machine.Latencies{}) {
		if !strings.Contains(text.String(), "\n| "+l.Of+" | ") {
			t.Errorf("%s is not reported", l.Of)
		}
		if l.Set != l.Default {
			t.Errorf("%s is %s alone, and not %s", l.Of, l.Set, l.Default)
		}
	}
	if reported := described(r.Defaults.Latencies); reported != "publishing 45 s (else 30 min)" {
		t.Errorf("the run at the defaults sets: %s", reported)
	}
}
