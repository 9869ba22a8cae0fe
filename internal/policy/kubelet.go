package policy

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// askKubelets checks for a kubelet on Nodes with open joins, and on all Nodes of an instance with several Nodes. A Node
// with a known kubelet is not checked again.
func (d *joinTracker) askKubelets(ctx context.Context, t *watchedPool, nodes []*corev1.Node, limits joinhealth.Limits, now time.Time) error {
	if d.NewNodes.WithoutKubelet == nil {
		return nil
	}
	named := map[string]int{}
	for _, node := range nodes {
		named[strings.ToLower(node.Spec.ProviderID)]++
	}
	var asked []*corev1.Node
	for _, node := range nodes {
		without, known := t.without[node.UID]
		if (now.Sub(node.CreationTimestamp.Time) <= 2*limits.Watch || named[strings.ToLower(node.Spec.ProviderID)] > 1) && (without || !known) {
			asked = append(asked, node)
		}
	}
	found, err := d.NewNodes.WithoutKubelet(ctx, asked, d.Nodes.All)
	if err != nil {
		return err
	}
	known := map[types.UID]bool{}
	for _, node := range nodes { // forgets Nodes that are gone
		if without, is := found[node.UID]; is {
			known[node.UID] = without
		} else if without, is := t.without[node.UID]; is {
			known[node.UID] = without
		}
	}
	t.without = known
	return nil
}
