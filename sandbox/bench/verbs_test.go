package bench

import (
	"strings"
	"testing"
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
	if err != nil || got != 23 {
		t.Errorf("%v, %v", got, err)
	}
}
