package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/workload"
)

// grow adds a node to the pool and returns when the first pod on the new node is ready.
func (s *scenario) grow(ctx context.Context) (joined, error) {
	size, err := s.size(ctx)
	if err != nil {
		return joined{}, err
	}
	joins, err := s.world.Scale(ctx, s.pool, control.Scale{Nodes: size + 1, Wait: true}, s.print.event)
	if err != nil {
		return joined{}, err
	}
	if len(joins) != 1 {
		return joined{}, fmt.Errorf("the pool grew by %d nodes, want 1", len(joins))
	}
	j := joined{Join: joins[0]}
	if j.machine, err = s.machineOf(j.Node); err != nil {
		return joined{}, err
	}
	j.images, j.boot = j.machine.Images, j.machine.Waits
	pod, err := s.awaitAgent(ctx, j.Node)
	if err != nil {
		return joined{}, err
	}
	j.pod = s.world.Fleet().PodWaits(j.machine.ID, pod)
	s.print.line("%s by the simulated clock: Ready after %s, its first pod after %s", j.Node, minutes(j.ready()), minutes(j.serving()))
	j.identity, err = identify(j.machine.Disk)
	return j, err
}

func (s *scenario) size(ctx context.Context) (int64, error) {
	pools, err := s.world.Pools(ctx)
	if err != nil {
		return 0, err
	}
	return pools[0].Capacity, nil
}

// awaitAgent waits for the daemon set's pod on a node, and returns its UID.
func (s *scenario) awaitAgent(ctx context.Context, node string) (pod types.UID, _ error) {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		pods, err := s.world.Kube().CoreV1().Pods(workload.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: "app=" + workload.DaemonSet, FieldSelector: "spec.nodeName=" + node,
		})
		if err != nil || len(pods.Items) == 0 {
			return false, err
		}
		for _, c := range pods.Items[0].Status.Conditions {
			if c.Type == corev1.PodReady {
				pod = pods.Items[0].UID
				return c.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return "", fmt.Errorf("no pod of %s on %s is ready: %w", workload.DaemonSet, node, err)
	}
	return pod, nil
}
