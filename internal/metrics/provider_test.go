package metrics

import (
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestCallsAreCounted: each call is timed, and counted by its name and result. Package cloud tests that no call is left
// out.
func TestCallsAreCounted(t *testing.T) {
	memoryCloud := memory.New(memory.Config{})
	pool := memoryCloud.AddPool(memory.PoolSpec{Name: "pool1"})
	refuse := true
	faulty := memory.NewFaulty(memoryCloud, func(memory.Call) memory.Outcome {
		if refuse {
			return memory.FailBefore(cloud.Throttled)
		}
		return memory.Pass()
	})
	m := New(nil)
	provider := m.Provider(faulty.Provider)
	if _, err := provider.Pool(t.Context(), pool); !cloud.Is(err, cloud.Throttled) {
		t.Errorf("the error is %v", err)
	}
	refuse = false
	if have, err := provider.Pool(t.Context(), pool); err != nil || have.ID != pool {
		t.Errorf("the pool is %+v, %v", have, err)
	}
	provider.MaxImages(pool)
	samples := scrape(t, m)
	for name, want := range map[string]float64{
		`kamino_cloud_calls_total{op="Pool",result="OK"}`:          1,
		`kamino_cloud_calls_total{op="Pool",result="Throttled"}`:   1,
		`kamino_cloud_call_duration_seconds_count{op="Pool"}`:      2,
		`kamino_cloud_call_duration_seconds_count{op="MaxImages"}`: 0,
	} {
		if samples[name] != want {
			t.Errorf("%s is %v, want %v", name, samples[name], want)
		}
	}
}
