package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPage: a report replaces only the previous report. A page without a place for reports is an error, and stays
// unchanged.
func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write("# Title\n" + pageBegin + "old\n" + pageEnd + "more\n")
	for range 2 {
		if err := (Report{{What: "a", Measured: "1", Limit: "at most 2"}}).WritePage(path); err != nil {
			t.Fatal(err)
		}
		want := "# Title\n" + pageBegin + "\n| figure | measured | limit |\n|---|---|---|\n| a | 1 | at most 2 |\n\n" + pageEnd + "more\n"
		if have := read(); have != want {
			t.Fatalf("%q, want %q", have, want)
		}
	}
	write("# Title\n" + pageBegin)
	if err := (Report{}).WritePage(path); err == nil || !strings.Contains(err.Error(), "was not changed") || read() != "# Title\n"+pageBegin {
		t.Errorf("%v, and %q", err, read())
	}
}

func all(seconds float64) []time.Duration {
	return []time.Duration{time.Duration(seconds * float64(time.Second))}
}

// TestLimits: a figure at its limit is not beyond the limit, and a figure above is.
func TestLimits(t *testing.T) {
	var verbs, returned Report
	verbCost{walls: all(3.1), cpus: all(1)}.report(&verbs, "`kamino status`", time.Second, 3)
	verbCost{walls: all(6), cpus: all(1)}.report(&verbs, "`kamino plan`", time.Second, 6)
	captureCost{simulated: maxReturned}.whole(&returned, "a", maxReturned)
	captureCost{simulated: maxReturned + 1}.whole(&returned, "b", maxReturned)
	for name, c := range map[string]struct {
		report Report
		row    string
		missed []string
	}{
		"tree": {treeCost{cats: all(0.5), generalize: all(2.1), verify: all(1.5)}.report(3 << 20),
			"| CPU of `kamino-node generalize` against `cat` | 4.20 (2.10 s) | at most 4 |", []string{"CPU of `kamino-node generalize` against `cat`"}},
		"verbs": {verbs, "| `kamino status` against one LIST | 3.10 | at most 3 |", []string{"`kamino status` against one LIST"}},
		"a capture": {returned, "| a | CPU 0.00 s, 0.0 MiB, 0 requests with 0 polls and repeats, 2.7 min of the cloud's time | at most 160 s |",
			[]string{"b"}},
		"methods": {compareMethods(methodCost{away: 90 * time.Second, boots: 1}, methodCost{frozen: time.Second}),
			"| donor not Ready or cordoned, on AWS: in place, by copy | 90.0 s, 0.0 s | by copy 0 s |", nil},
		"methods that are alike": {compareMethods(methodCost{}, methodCost{away: time.Second, boots: 1, frozen: 1001 * time.Millisecond}),
			"| boots of the donor: in place, by copy | 0, 1 | by copy 0 |",
			[]string{"donor not Ready or cordoned, on AWS: in place, by copy", "boots of the donor: in place, by copy", "donor's disk frozen, by copy"}},
		"scale": {scaleCost{lists: all(1), decisions: all(2), peak: maxPeakMemory, steady: maxSteadyMemory + 1, requests: 1}.report(1024),
			"| ratio of the two | 2.00 | at most 2 |", []string{"controller's memory, steady", "5000 heartbeats: passes, requests to Azure"}},
	} {
		var text strings.Builder
		if err := c.report.Markdown(&text); err != nil || !strings.Contains(text.String(), c.row+"\n") {
			t.Errorf("%s: %v, and no row %s in\n%s", name, err, c.row, &text)
		}
		if missed := c.report.Missed(); !slices.Equal(missed, c.missed) {
			t.Errorf("%s: beyond a limit are %q, want %q", name, missed, c.missed)
		}
	}
}

func TestShortenedLatencies(t *testing.T) {
	want := "publishing 45 s (else 30 min), creation of an instance 1 s (else 40 s), installation 1 s (else 105 s), join 1 s (else 9 s), " +
		"an extension 1 s (else 60 s), an image pull 1 s (else 12 s)"
	if got := shortened(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
