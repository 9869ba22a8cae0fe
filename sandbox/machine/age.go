package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// Age shifts the transition times of the Node's conditions, and the time of the patch, into the past. Timestamps of
// other writers stay: the creation time of the Node, and heartbeats.
func (f *Fleet) Age(ctx context.Context, id string, by time.Duration) error {
	if by <= 0 {
		return fmt.Errorf("a machine cannot age by %s: give a time above 0, such as 26h", by)
	}
	m, err := f.machine(id)
	if err != nil {
		return err
	}
	s := m.now()
	if s == nil || s.agent() == nil {
		return fmt.Errorf("machine %s cannot age: the machine must be on and joined", id)
	}
	node := s.agent().Node().Name
	// The patch first: a node must not seem to have been Ready before it.
	if err := f.editNode(ctx, node, func(n *corev1.Node) { agePatch(n, by) }); err != nil {
		return err
	}
	nodes := f.config.Client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := nodes.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range n.Status.Conditions {
			since := &n.Status.Conditions[i].LastTransitionTime
			*since = metav1.NewTime(since.Add(-by))
		}
		_, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

func agePatch(n *corev1.Node, by time.Duration) {
	for _, name := range []string{kuredNeeded, kuredInProgress} {
		if at, err := time.Parse(time.RFC3339, n.Annotations[name]); err == nil {
			n.Annotations[name] = at.Add(-by).Format(time.RFC3339)
		}
	}
}
