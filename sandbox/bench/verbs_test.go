package bench

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReadsAreCounted(t *testing.T) {
	got, err := readsIn(strings.NewReader(`# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",resource="nodes",verb="LIST"} 20
apiserver_request_total{code="429",component="apiserver",resource="nodes",verb="LIST"} 2
apiserver_request_total{code="200",component="apiserver",resource="configmaps",verb="GET"} 1
apiserver_request_total{code="200",component="apiserver",resource="endpointslices",verb="LIST"} 9
apiserver_request_total{code="200",component="apiserver",resource="nodes",verb="WATCH"} 9
other_total{resource="nodes",verb="LIST"} 9
`))
	if want := map[string]int{"LIST nodes": 22, "GET configmaps": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestVerbLimits(t *testing.T) {
	verb := func(wall time.Duration) Verb {
		return Verb{Walls: []time.Duration{wall}, CPUs: []time.Duration{time.Second}}
	}
	v := Verbs{Lists: []time.Duration{time.Second}, Status: verb(3100 * time.Millisecond), Plan: verb(6 * time.Second)}
	r := Report{Verbs: &v}
	if missed := r.Missed(); !slices.Equal(missed, []string{"kamino status"}) {
		t.Errorf("beyond its limit: %v", missed)
	}
	var text strings.Builder
	if err := r.Markdown(&text); err != nil || !strings.Contains(text.String(), "| `kamino status` against one LIST | 3.10 | at most 3 |\n") {
		t.Errorf("%v\n%s", err, &text)
	}
}
