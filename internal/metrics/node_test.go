package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/selection"
)

func TestNodesByVersion(t *testing.T) {
	m := New(nil, registry.All()...)
	m.InstancesListed("a", "pool1", map[string]int{"2026.03.01": 2, "2026.03.02": 1}, 0, 0)
	m.InstancesListed("a", "pool1", map[string]int{"2026.03.02": 3, "generic": 1}, 0, 0)
	m.InstancesListed("b", "pool1", map[string]int{"generic": 4}, 0, 0)
	m.InstancesListed("c", "pool2", map[string]int{"generic": 1}, 0, 0)
	m.PoolGone("c")
	want := map[string]float64{
		`kamino_pool_nodes{pool="pool1",version="2026.03.02"}`: 3,
		`kamino_pool_nodes{pool="pool1",version="generic"}`:    5,
	}
	if diff := cmp.Diff(want, reported(t, m, "kamino_pool_")); diff != "" {
		t.Errorf("only the last count counts (-want +got):\n%s", diff)
	}
}

func TestDecisions(t *testing.T) {
	m := New(nil, registry.All()...)
	m.Decided("a", "pool1", 2, map[string]int{selection.NotReady: 1, "SomebodysOwnWord": 2, "AnotherWord": 1})
	m.Decided("b", "pool2", 0, nil)
	want := map[string]float64{
		`kamino_pool_candidates{pool="pool1"}`:                      2,
		`kamino_pool_candidates{pool="pool2"}`:                      0,
		`kamino_pool_refused_nodes{pool="pool1",reason="NotReady"}`: 1,
		`kamino_pool_refused_nodes{pool="pool1",reason="Other"}`:    3,
	}
	got := map[string]float64{}
	for key, value := range scrape(t, m) {
		if _, wanted := want[key]; wanted || value != 0 {
			got[key] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestJoins(t *testing.T) {
	m := New(nil, registry.All()...)
	m.NodeJoined("generic", 10*time.Minute)
	m.NodeJoined("2026.03.01", time.Minute)
	m.NodeJoined("2026.03.02", 2*time.Minute)
	want := map[string]float64{
		`kamino_node_join_seconds_count{built_from="generic"}`: 1, `kamino_node_join_seconds_sum{built_from="generic"}`: 600,
		`kamino_node_join_seconds_count{built_from="prototype"}`: 2, `kamino_node_join_seconds_sum{built_from="prototype"}`: 180,
	}
	if diff := cmp.Diff(want, reported(t, m, "kamino_node_join")); diff != "" {
		t.Errorf("joins (-want +got):\n%s", diff)
	}
}

// TestImagesOfAPool: the last count is shown; of pools with one name the pool with the most images. A cloud without a limit
// and a deleted pool have no series.
func TestImagesOfAPool(t *testing.T) {
	m := New(nil, registry.All()...)
	m.InstancesListed("a", "pool1", nil, 9, 10)
	m.InstancesListed("a", "pool1", nil, 3, 10)
	m.InstancesListed("b", "pool1", nil, 7, 10)
	m.InstancesListed("c", "pool2", nil, 4, 0)
	m.InstancesListed("d", "pool3", nil, 5, 10)
	m.PoolGone("d")
	samples := scrape(t, m)
	want := map[string]float64{`kamino_pool_images{pool="pool1"}`: 7, `kamino_pool_images_limit{pool="pool1"}`: 10}
	for name, value := range samples {
		if strings.HasPrefix(name, "kamino_pool_images") && want[name] != value {
			t.Errorf("%s = %v", name, value)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}
}
