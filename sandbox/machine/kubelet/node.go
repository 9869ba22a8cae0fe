package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/sandbox/machine/bootconfig"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// register creates the Node, or reuses an existing Node. A provider ID never changes: a clone with its donor's name
// writes its boot into the donor's Node, like a real kubelet.
func (k *Kubelet) register(ctx context.Context) error {
	// Record a heartbeat before the Node is Ready. A Node that is marked as lost in between would stay lost until the
	// next heartbeat.
	k.service.recordHeartbeat(k.node.Name)
	nodes := k.client.CoreV1().Nodes()
	fresh := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.node.Name, Labels: k.labels(), Annotations: map[string]string{
			"volumes.kubernetes.io/controller-managed-attach-detach": "true",
		}},
		Spec: corev1.NodeSpec{ProviderID: k.node.ProviderID, Taints: k.node.Config.Taints},
	}
	k.fillStatus(&fresh.Status)
	status, reason, message := k.readyStatus()
	k.setConditions(&fresh.Status, status, reason, message)
	_, err := nodes.Create(ctx, fresh, metav1.CreateOptions{})
	if err == nil {
		return k.writeLease(ctx)
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register node %s: %w", k.node.Name, err)
	}
	if err := k.takeOver(ctx); err != nil {
		return fmt.Errorf("register node %s, which exists: %w", k.node.Name, err)
	}
	return k.writeLease(ctx)
}

// takeOver brings the labels of an existing Node up to date and reports the new boot.
func (k *Kubelet) takeOver(ctx context.Context) error {
	nodes := k.client.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, k.node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		changed := false
		for key, value := range k.labels() {
			if node.Labels[key] != value {
				metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
				changed = true
			}
		}
		if changed {
			_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return err
	}
	status, reason, message := k.readyStatus()
	return k.setReady(ctx, status, reason, message)
}

func (k *Kubelet) labels() map[string]string {
	labels := map[string]string{
		corev1.LabelHostname: k.node.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}
	maps.Copy(labels, k.node.Config.Labels)
	maps.Copy(labels, k.node.Labels)
	return labels
}

// fillStatus writes the kubelet's whole status except conditions.
func (k *Kubelet) fillStatus(status *corev1.NodeStatus) {
	config := &k.node.Config
	status.Capacity, status.Allocatable = config.Capacity, config.Allocatable
	address := config.Address
	if config.Capacity == nil {
		all := bootconfig.Capacity(k.node.Labels[corev1.LabelInstanceTypeStable])
		status.Capacity, status.Allocatable = all, all
		address = k.node.IP
	}
	status.NodeInfo = k.node.Info
	status.Addresses = nil
	if address != "" {
		status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address},
			{Type: corev1.NodeHostName, Address: k.node.Name},
		}
	}
	status.DaemonEndpoints = corev1.NodeDaemonEndpoints{} // no program listens for the API server here
	status.Images = k.images()
}

func (k *Kubelet) images() []corev1.ContainerImage {
	if k.node.Root == "" {
		return nil
	}
	var images []corev1.ContainerImage
	for _, image := range disk.Images(k.node.Root) {
		images = append(images, corev1.ContainerImage{Names: []string{image}, SizeBytes: 40 << 20})
	}
	return images
}

// setReady writes the kubelet's whole status with a Ready condition.
func (k *Kubelet) setReady(ctx context.Context, ready corev1.ConditionStatus, reason, message string) error {
	return updateNode(ctx, k.client, k.node.Name, func(status *corev1.NodeStatus) bool {
		k.fillStatus(status)
		k.setConditions(status, ready, reason, message)
		return true
	})
}

// updateNode changes a Node's status by a patch, like a kubelet, and repeats after conflicts. An update of the whole Node
// during a cordon would seem to remove the taint, which the API server forbids.
func updateNode(ctx context.Context, kube kubernetes.Interface, name string, change func(*corev1.NodeStatus) bool) error {
	nodes := kube.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := node.DeepCopy()
		if !change(&node.Status) {
			return nil
		}
		before.ResourceVersion = "" // so that the patch contains the version, and a concurrent change causes a conflict
		patch, err := client.StrategicMergeFrom(before).Data(node)
		if err != nil {
			return err
		}
		_, err = nodes.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// now is the simulated time by the machine's clock.
func (k *Kubelet) now() time.Time { return k.service.Clock.Now().Add(k.node.Config.Clock) }

// setConditions sets Ready, the pressures, and the conditions of the node problem detector.
func (k *Kubelet) setConditions(status *corev1.NodeStatus, ready corev1.ConditionStatus, reason, message string) {
	now := metav1.NewTime(k.now())
	setConditions(status, now, ready, reason, message, k.node.Config.DiskPressure)
	for _, condition := range k.node.Config.Conditions {
		setCondition(status, now, condition)
	}
}

// pressures holds the reasons of the conditions that are False on a healthy node, in the kubelet's order.
var pressures = []struct {
	kind    corev1.NodeConditionType
	subject string
}{
	{corev1.NodeMemoryPressure, "SufficientMemory"}, {corev1.NodeDiskPressure, "NoDiskPressure"}, {corev1.NodePIDPressure, "SufficientPID"},
}

// setConditions sets Ready and the pressures. Unknown is the node lifecycle controller's, and no heartbeat.
func setConditions(status *corev1.NodeStatus, now metav1.Time, ready corev1.ConditionStatus, reason, message string, diskPressure bool) {
	for _, pressure := range pressures {
		condition := corev1.NodeCondition{Type: pressure.kind, Status: ready, Reason: reason, Message: message}
		switch {
		case ready == corev1.ConditionUnknown:
		case pressure.kind == corev1.NodeDiskPressure && diskPressure:
			condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, "KubeletHasDiskPressure", "kubelet has disk pressure"
		default:
			condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, "KubeletHas"+pressure.subject, "kubelet has "+pressure.subject
		}
		setCondition(status, now, condition)
	}
	setCondition(status, now, corev1.NodeCondition{Type: corev1.NodeReady, Status: ready, Reason: reason, Message: message})
}

// setCondition writes a condition of the kind, with a new transition time if its status changes.
func setCondition(status *corev1.NodeStatus, now metav1.Time, wanted corev1.NodeCondition) {
	i := slices.IndexFunc(status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == wanted.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, corev1.NodeCondition{Type: wanted.Type})
		i = len(status.Conditions) - 1
	}
	condition := &status.Conditions[i]
	if condition.Status != wanted.Status {
		condition.Status, condition.LastTransitionTime = wanted.Status, now
	}
	condition.Reason, condition.Message = wanted.Reason, wanted.Message
	if wanted.Status != corev1.ConditionUnknown {
		condition.LastHeartbeatTime = now
	}
}

// keepReady keeps the Node Ready as long as the kubelet is active.
func (k *Kubelet) keepReady(ctx context.Context) {
	period := max(k.service.Clock.Real(k.service.Latencies.Heartbeat), time.Second)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.heartbeat(ctx)
		}
	}
}

// heartbeat renews the Lease, and the Node's status if the status has changed.
func (k *Kubelet) heartbeat(ctx context.Context) {
	k.beating.Lock()
	defer k.beating.Unlock()
	if !k.isActive() {
		return
	}
	err := k.renewLease(ctx)
	if err == nil {
		ready, reason, message := k.readyStatus()
		err = updateNode(ctx, k.client, k.node.Name, func(status *corev1.NodeStatus) bool {
			if reportedRecently(status, ready, k.now()) && status.NodeInfo.BootID == k.node.Info.BootID && len(status.Images) == len(k.images()) {
				return false
			}
			k.fillStatus(status)
			k.setConditions(status, ready, reason, message)
			return true
		})
	}
	if err != nil && ctx.Err() == nil {
		k.service.Log.Warn("heartbeat not sent", "node", k.node.Name, "error", err)
	}
}

func isReady(status *corev1.NodeStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// statusReport is the kubelet's default limit for the age of heartbeats in the status.
const statusReport = 5 * time.Minute

// reportedRecently: the status has this Ready value and a recent heartbeat. Some tools treat a node with an old heartbeat
// as lost.
func reportedRecently(status *corev1.NodeStatus, ready corev1.ConditionStatus, now time.Time) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == ready && now.Sub(c.LastHeartbeatTime.Time) < statusReport
	})
}

// renewLease renews the node's Lease. A light machine writes its Lease only at the registration. With thousands of
// light machines, the node lifecycle controller needs a grace period of days.
func (k *Kubelet) renewLease(ctx context.Context) error {
	if k.node.Root == "" {
		return nil
	}
	return k.writeLease(ctx)
}

func (k *Kubelet) writeLease(ctx context.Context) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	// The Lease has the machine's own time, which the calendar does not change.
	now, seconds := metav1.NewMicroTime(time.Now().Add(k.node.Config.Clock)), int32(40)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &k.node.Name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(ctx, k.node.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.node.Name}, Spec: spec}, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		lease.Spec = spec
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}
