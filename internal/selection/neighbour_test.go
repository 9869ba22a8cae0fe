package selection

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestHowMuchOfAPoolMayBeAway: every node out of service counts, whatever the cause.
func TestHowMuchOfAPoolMayBeAway(t *testing.T) {
	for _, c := range []struct {
		nodes, away int
		limit       intstr.IntOrString
		want        string
	}{
		{3, 0, intstr.FromString("10%"), DonorChosen},
		{3, 1, intstr.FromString("10%"), TooManyUnavailable},
		{3, 1, intstr.FromInt32(2), DonorChosen},
		{3, 1, intstr.FromInt32(1), TooManyUnavailable},
		{20, 1, intstr.FromString("10%"), DonorChosen},
		{20, 2, intstr.FromString("10%"), TooManyUnavailable},
		{21, 2, intstr.FromString("10%"), DonorChosen}, // a percentage is rounded up
		{20, 19, intstr.FromString("100%"), TooFewCandidates},
		{3, 0, intstr.IntOrString{}, DonorChosen},
		{3, 0, intstr.FromString("nonsense"), DonorChosen}, // the limit is at least the donor
		{3, 1, intstr.FromString("nonsense"), TooManyUnavailable},
	} {
		for kind, out := range map[string]func(*corev1.Node){"cordoned": cordon, "not Ready": notReady} {
			t.Run(fmt.Sprintf("%d of %d %s within %s", c.away, c.nodes, kind, c.limit.String()), func(t *testing.T) {
				var nodes []*corev1.Node
				for i := range c.nodes {
					nodes = append(nodes, patchedNode(fmt.Sprintf("n%02d", i)))
					if i < c.away {
						out(nodes[i])
					}
				}
				rules := defaults()
				rules.MaxUnavailable = c.limit
				got := Choose(poolOf(nodes...), rules, now)
				if got.Reason != c.want || (got.Donor != nil) != (c.want == DonorChosen) {
					t.Errorf("%s: %s", got.Reason, got.Message)
				}
				if c.want == TooManyUnavailable && (!strings.Contains(got.Message, "pool workers") || !strings.Contains(got.Message, fmt.Sprint(c.away)) ||
					!strings.Contains(got.Message, "maxUnavailable")) {
					t.Errorf("the message names neither pool, count nor setting: %q", got.Message)
				}
			})
		}
	}
}
