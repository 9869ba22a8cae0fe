package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRowsAreUpdated(t *testing.T) {
	page := strings.Join([]string{
		"| package | CPU | wall | CPU | wall | sees |", "|---|---|---|---|---|---|",
		"| `a` | 1.0 | 2.0 | 3.0 | 4.0 | one thing |",
		"| `gone` | 1.0 | 2.0 | 3.0 | 4.0 | nothing now |",
		"| `others` | - | - | 9.0 | 9.0 | the rest |", "",
	}, "\n")
	got := map[string]*figures{
		"a": {cpu: 10, wall: 20}, "small": {cpu: 0.5, wall: 1}, "smaller": {cpu: 0.25, wall: 1}, "large": {cpu: 2, wall: 1},
	}
	next, missing := updateRows(page, got, false, true)
	if diff := cmp.Diff([]string{"large"}, missing); diff != "" {
		t.Errorf("packages that need a row (-want +got):\n%s", diff)
	}
	for _, line := range []string{
		"| `a` | 10.0 | 20.0 | 3.0 | 4.0 | one thing |", "| `gone` | - | - | 3.0 | 4.0 | nothing now |",
		"| `others` | 2.8 | 3.0 | 9.0 | 9.0 | the rest |",
	} {
		if !strings.Contains(next, line+"\n") {
			t.Errorf("the page lacks %q:\n%s", line, next)
		}
	}
}

// TestEventsAreSummedUp: a package whose tests run once for each cloud names each test twice.
func TestEventsAreSummedUp(t *testing.T) {
	events := `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"said\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":5}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":2}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":3}
{"Action":"pass","Package":"p","Elapsed":6.5}
`
	f, said := readEvents(bytes.NewBufferString(events))
	if f.wall != 6.5 || f.tests["TestA"] != 5 || len(f.tests) != 1 || said != "said\n" {
		t.Errorf("got %+v and %q", f, said)
	}
}
