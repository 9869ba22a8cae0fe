package runner

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/node/reservations"
)

// AdmitRelease refuses to release a node whose capture is running, or not in the way that the person asks for. The Node alone is
// not released while its instance is off, unless the instance will be started, too: pods would wait for the node.
func (h *Reservations) AdmitRelease(ctx context.Context, n reservations.Node, nodeOnly, start bool) error {
	switch {
	case n.State == reservations.ByCapture:
		return cluster.Refusef("node %s is reserved by the running %s, and nothing was changed: to stop the capture, run `kamino cancel %s`",
			n.Name, n.Holder, n.Holder.Name)
	case n.State == reservations.ByUnknown:
		return cluster.Refusef("node %s is reserved by %s, and nothing was changed: release the node with the Kamino version that reserved the node",
			n.Name, n.Holder)
	case !n.Believed() && !nodeOnly:
		return cluster.Refusef("no Lease of Kamino confirms the reservation of node %s, and nothing was changed: run `kamino return-node %s --node-only`. "+
			"The command deletes the reservation and the annotations that block autoscalers, and uncordons the node. Check the instance: "+
			"the command does not change the instance", n.Name, n.Name)
	case n.Believed() && nodeOnly:
		return cluster.Refusef(
			"node %s is reserved by %s, and nothing was changed: run again without --node-only, because the instance may also need a restart", n.Name, n.Holder)
	case !nodeOnly || start:
		return nil
	}
	off, _, err := h.isOff(ctx, n.Name)
	if err == nil && off {
		return cluster.Refusef("the instance of node %s is off, and nothing was changed: run `kamino return-node %s --node-only --start`, "+
			"which also starts the instance", n.Name, n.Name)
	}
	return err
}

// Start starts the instance of a node, if the instance is off.
func (h *Reservations) Start(ctx context.Context, name string) error {
	off, id, err := h.isOff(ctx, name)
	if err == nil && off {
		_, err = h.Cloud.EnsureStarted(ctx, id)
	}
	return err
}

func (h *Reservations) isOff(ctx context.Context, name string) (off bool, id cloud.InstanceID, err error) {
	n, err := h.Cluster.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil || nodestate.Ready(n) {
		return false, "", err
	}
	id = cloud.InstanceID(n.Spec.ProviderID)
	instance, err := h.Cloud.Instance(ctx, id)
	if cloud.Is(err, cloud.NotFound) {
		return false, id, h.confirmGone(ctx, n)
	}
	return instance.Power == cloud.PowerStopped, id, err
}
