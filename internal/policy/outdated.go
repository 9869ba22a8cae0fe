package policy

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// nodePage is the number of Nodes in an answer.
const nodePage = 250

// isOutdated reports whether the pass has decided by other policies than the API server has now, as after a suspension that the cache
// does not have yet.
func isOutdated(ctx context.Context, d *Decider, w *observed) (bool, error) {
	if d.Policies != nil {
		return false, nil
	}
	live := &v1alpha1.PrototypePolicyList{}
	if err := d.Client.List(ctx, live); err != nil {
		return false, fmt.Errorf("list prototypepolicies: %w", err)
	}
	return !maps.Equal(revisions(live.Items), revisions(w.policies)), nil
}

// revisions are the generations of policies, by UID.
func revisions(all []v1alpha1.PrototypePolicy) map[types.UID]int64 {
	of := map[types.UID]int64{}
	for i := range all {
		if all[i].DeletionTimestamp == nil {
			of[all[i].UID] = all[i].Generation
		}
	}
	return of
}

// oldEvidence names what the caches of the controller have in an older state than the API server: a policy, or a Node that came or
// became Ready. The verdict may be another one then.
func oldEvidence(ctx context.Context, d *Decider, w *observed) (string, error) {
	if isOld, err := isOutdated(ctx, d, w); isOld || err != nil {
		return "a policy", err
	}
	ready := map[string]bool{}
	for _, n := range d.Nodes.All() {
		ready[n.Name] = nodestate.Ready(n)
	}
	for list := (&corev1.NodeList{}); ; {
		if err := d.Client.List(ctx, list, client.Limit(nodePage), client.Continue(list.Continue)); err != nil {
			return "", fmt.Errorf("list nodes: %w", err)
		}
		for i := range list.Items {
			if n := &list.Items[i]; nodestate.Ready(n) && !ready[n.Name] {
				return "node " + n.Name, nil
			}
		}
		if list.Continue == "" {
			return "", nil
		}
	}
}
