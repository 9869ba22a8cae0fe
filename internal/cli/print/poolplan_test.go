package print

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/history/estimate"
)

// TestAPlanEstimatesTheTurnover, and proposes rebuilds only in a slow pool.
func TestAPlanEstimatesTheTurnover(t *testing.T) {
	p := PoolPlan{Pool: "pool1", Policy: "all", Decision: v1alpha1.PoolDecision{Message: "nothing to do"}}
	said := func() string {
		var out strings.Builder
		if err := PoolPlans(&out, output.Table, []PoolPlan{p}, true, time.Time{}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := said(); strings.Contains(got, "earlier images") {
		t.Errorf("a pool without earlier images: %s", got)
	}
	p.Turnover = &estimate.Turnover{Nodes: 60, Earlier: 52, MeanAgeSeconds: 600, OldestAgeSeconds: 900}
	if got := said(); !strings.Contains(got, "52 of 60 nodes have earlier images.\n") {
		t.Errorf("a young pool: %s", got)
	}
	p.Turnover = &estimate.Turnover{Nodes: 60, Earlier: 52, MeanAgeSeconds: 10 * 24 * 3600, OldestAgeSeconds: 30 * 24 * 3600}
	const want = "52 of 60 nodes have earlier images. Without rebuilds, a new version reaches 95 % of the nodes after about 30d"
	if got := said(); !strings.Contains(got, want) || strings.Contains(got, "rebuild.outdated") {
		t.Errorf("%s", got)
	}
	p.SlowTurnover = true
	if got := said(); !strings.Contains(got, "set rebuild.outdated in the policy") {
		t.Errorf("%s", got)
	}
}

// TestAPlanNamesTheNextRun as a bound: the schedule allows a capture then, and needs a node as well.
func TestAPlanNamesTheNextRun(t *testing.T) {
	next := metav1.NewTime(now.Add(59 * time.Minute))
	p := PoolPlan{Pool: "pool1", Policy: "all", Decision: v1alpha1.PoolDecision{Message: "no node is newer"}, Status: v1alpha1.PoolStatus{NextRun: &next}}
	var out strings.Builder
	if err := PoolPlans(&out, output.Table, []PoolPlan{p}, true, now); err != nil {
		t.Fatal(err)
	}
	if want := "The policy begins no capture before " + next.UTC().Format(time.RFC3339) + ", in 59m00s."; !strings.Contains(out.String(), want) {
		t.Errorf("%s\nlacks %q", out.String(), want)
	}
}
