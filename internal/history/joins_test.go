package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// TestHistoryCountsJoins counts joins by version. Versions without nodes and uncounted pools have no counts.
func TestHistoryCountsJoins(t *testing.T) {
	facts := Facts{Pool: cloud.Pool{Name: "pool1", Recipe: cloud.Recipe{Version: v3}}, Images: []cloud.Image{ours(v1), ours(v2), ours(v3)},
		Counted: true, Joins: []joinhealth.Join{
			{Version: v3, Outcome: joinhealth.Joined, Took: 40 * time.Second}, {Version: v3, Outcome: joinhealth.Failed},
			{Version: v3, Outcome: joinhealth.Waiting},
			{Version: v3, Outcome: joinhealth.Joined, Took: 50*time.Second + 400*time.Millisecond}, {Version: v3, Outcome: joinhealth.Uncounted},
			{Version: v2, Outcome: joinhealth.Waiting}, {Version: "2026.01.01", Outcome: joinhealth.Failed},
		}}
	want := map[string]*Joins{v3: {Judged: 3, Joined: 2, Failed: 1, Waiting: 1, MedianSeconds: 50}, v2: {Waiting: 1}, v1: nil}
	for _, v := range Of(facts).Versions {
		if diff := cmp.Diff(want[v.Version], v.Joins); diff != "" {
			t.Errorf("version %s (-want +got):\n%s", v.Version, diff)
		}
	}
	facts.Counted = false
	for _, v := range Of(facts).Versions {
		if v.Joins != nil {
			t.Errorf("not counted, and version %s has %+v", v.Version, v.Joins)
		}
	}
}
