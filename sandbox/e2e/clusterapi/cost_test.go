package clusterapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// requestsAtMost is what a clean capture may ask of the management cluster and of the cloud. docs/cluster-api.md tells what was counted:
// how often is waited for the cloud and for Cluster API's controllers is not the same twice.
var requestsAtMost = map[sandboxtest.Server]int{sandboxtest.Management: 260, sandboxtest.Cloud: 120}

// TestRequests counts what a clean capture asks of whom, and what it writes where.
func TestRequests(t *testing.T) {
	g := newGround(t, "counted")
	var mu sync.Mutex
	asked, kinds := map[sandboxtest.Server]int{}, map[string]int{}
	g.env = sandbox.Gates(t, func(to sandboxtest.Server, r *http.Request) sandboxtest.Passage {
		mu.Lock()
		defer mu.Unlock()
		asked[to]++
		if to == sandboxtest.Management {
			kinds[kindOf(r)]++
		}
		return sandboxtest.Passage{}
	})
	g.capture(0, []string{"builds its next nodes from version "})
	g.whole(2)
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d requests to the management cluster, %d to the cloud: %v", asked[sandboxtest.Management], asked[sandboxtest.Cloud], kinds)
	for server, most := range requestsAtMost {
		if n := asked[server]; n == 0 || n > most {
			t.Errorf("%d requests to server %v, want at most %d: %v", n, server, most, kinds)
		}
	}
	writes := slices.DeleteFunc(slices.Sorted(maps.Keys(kinds)), func(kind string) bool {
		return strings.HasPrefix(kind, http.MethodGet) || strings.Contains(kind, "selfsubject")
	})
	want := []string{"DELETE machines", "PATCH machinedeployments", "PATCH machines", "PATCH machinesets", "POST awsmachinetemplates"}
	if !slices.Equal(writes, want) {
		t.Errorf("it wrote %v, want %v", writes, want)
	}
}

// kindOf is a request's method and resource.
func kindOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if at := slices.Index(parts, "namespaces"); at >= 0 && at+2 < len(parts) {
		return r.Method + " " + parts[at+2]
	}
	return r.Method + " " + parts[len(parts)-1]
}
