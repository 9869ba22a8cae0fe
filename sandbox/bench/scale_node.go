package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// scaleClients make and change nodes side by side.
const scaleClients = 8

// fill creates the nodes and returns the size of a node.
func (c *cluster) fill(ctx context.Context) (bytes int, err error) {
	fields, err := c.managedFields(ctx)
	if err != nil {
		return 0, err
	}
	err = inParallel(c.nodes, func(i int) error {
		if i == 0 {
			return nil // the pattern
		}
		node := c.node(i)
		node.ManagedFields = fields
		_, err := c.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{FieldManager: writer})
		return err
	})
	if err != nil {
		return 0, err
	}
	last, err := c.kube.CoreV1().Nodes().Get(ctx, c.nodeName(c.nodes-1), metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	return last.Size(), nil
}

const writer = "kubelet"

// managedFields creates the first node like a kubelet: the status is a separate write, so the managed fields record
// both writers. Managed fields are a large part of a Node, and equal for all nodes.
func (c *cluster) managedFields(ctx context.Context) ([]metav1.ManagedFieldsEntry, error) {
	wanted := c.node(0)
	made, err := c.kube.CoreV1().Nodes().Create(ctx, wanted, metav1.CreateOptions{FieldManager: writer})
	if err != nil {
		return nil, err
	}
	made.Status = wanted.Status
	for i := range made.Status.Conditions {
		made.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
	}
	made.Status.Phase = corev1.NodeRunning // without a change, the API server writes nothing
	made, err = c.kube.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{FieldManager: writer})
	if err != nil {
		return nil, err
	}
	return made.ManagedFields, nil
}

// inParallel calls do for 0 to n-1.
func inParallel(n int, do func(i int) error) error {
	var (
		wait  sync.WaitGroup
		once  sync.Once
		first error
	)
	for worker := range scaleClients {
		wait.Go(func() {
			for i := worker; i < n; i += scaleClients {
				if err := do(i); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	wait.Wait()
	return first
}

// beat has n nodes send a heartbeat, as kubelets do: a patch of the times in the conditions.
func (c *cluster) beat(ctx context.Context, n int) error {
	return inParallel(n, func(i int) error {
		var beats []map[string]any
		for _, condition := range conditions(time.Now()) {
			beats = append(beats, map[string]any{"type": condition.Type, "lastHeartbeatTime": condition.LastHeartbeatTime})
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": beats}})
		if err != nil {
			return err
		}
		_, err = c.kube.CoreV1().Nodes().PatchStatus(ctx, c.nodeName(i%c.nodes), patch)
		return err
	})
}

// change adds a new annotation, which a decision reads.
func (c *cluster) change(ctx context.Context) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.test/changed":%q}}}`, time.Now().Format(time.RFC3339Nano))
	_, err := c.kube.CoreV1().Nodes().Patch(ctx, c.nodeName(0), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// nodeName is the name of node i.
func (c *cluster) nodeName(i int) string {
	return fmt.Sprintf("%s%06d", c.poolOf(i).ScaleSet(), i/c.pools)
}

// node is like a node of a large cluster: half of the bytes name images, and the node is a candidate.
func (c *cluster) node(i int) *corev1.Node {
	spec, instance, name := c.poolOf(i), i/c.pools, c.nodeName(i)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(name, spec.Name, i), Annotations: map[string]string{
		"node.alpha.kubernetes.io/ttl": "300", "volumes.kubernetes.io/controller-managed-attach-detach": "true",
		"csi.volume.kubernetes.io/nodeid":          fmt.Sprintf(`{"disk.csi.azure.com":%q,"file.csi.azure.com":%q}`, name, name),
		v1alpha1.KuredRebootNeededAnnotation:       time.Now().Add(-48 * time.Hour).UTC().Format(time.RFC3339),
		"cluster-autoscaler.kubernetes.io/comment": "scaled by the cluster's autoscaler",
	}}}
	node.Spec.ProviderID = fmt.Sprintf("azure:///subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachineScaleSets/%s/virtualMachines/%d",
		c.site.SubscriptionID, c.site.ResourceGroup, spec.ScaleSet(), instance)
	node.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)
	node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
	node.Status = corev1.NodeStatus{
		Capacity: amounts(i, 0), Allocatable: amounts(i, 500), Conditions: conditions(time.Now()), Images: images(),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.240.%d.%d", i/250, i%250)}, {Type: corev1.NodeHostName, Address: name},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: fmt.Sprintf("%032d", i), SystemUUID: fmt.Sprintf("%036d", i), BootID: fmt.Sprintf("%036d", i), KernelVersion: "5.15.0-1089-azure",
			OSImage: "Ubuntu 22.04.5 LTS", ContainerRuntimeVersion: "containerd://1.7.23", KubeletVersion: "v1.31.4",
			OperatingSystem: "linux", Architecture: "amd64",
		},
	}
	for v := range 2 {
		volume := fmt.Sprintf("kubernetes.io/csi/disk.csi.azure.com^/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/disks/pvc-%036d",
			c.site.SubscriptionID, c.site.ResourceGroup, 2*i+v)
		node.Status.VolumesInUse = append(node.Status.VolumesInUse, corev1.UniqueVolumeName(volume))
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: corev1.UniqueVolumeName(volume)})
	}
	return node
}

func labels(name, pool string, i int) map[string]string {
	return map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
		corev1.LabelHostname: name, "agentpool": pool, "kubernetes.azure.com/agentpool": pool, "kubernetes.azure.com/mode": "user",
		corev1.LabelInstanceTypeStable: "Standard_D8s_v5", "beta.kubernetes.io/instance-type": "Standard_D8s_v5",
		corev1.LabelTopologyRegion: "westeurope", corev1.LabelTopologyZone: fmt.Sprintf("westeurope-%d", i%3),
		"failure-domain.beta.kubernetes.io/region": "westeurope", "topology.disk.csi.azure.com/zone": fmt.Sprintf("westeurope-%d", i%3),
		"kubernetes.azure.com/cluster": "production-cluster-one", "kubernetes.azure.com/role": "agent", "storageprofile": "managed",
		"storagetier": "Premium_LRS", "node.kubernetes.io/role": "agent",
		// The controller has already labelled the nodes. Nodes without the label would cost a list of each pool's
		// instances, once, soon after the start.
		v1alpha1.VersionLabel: v1alpha1.VersionGeneric,
	}
}

// conditions of a node that was healthy for a day, with conditions of a node problem detector.
func conditions(now time.Time) (all []corev1.NodeCondition) {
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeNetworkUnavailable, "KernelDeadlock", "ReadonlyFilesystem", "FrequentKubeletRestart", "FrequentContainerdRestart",
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady,
	} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		all = append(all, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "KubeletHas" + string(kind), Message: "kubelet has a sentence to say about this, of some length",
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now.Add(-24 * time.Hour)),
		})
	}
	return all
}

func amounts(i, less int) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(fmt.Sprintf("%dm", 8000-less)),
		corev1.ResourceMemory:           resource.MustParse(fmt.Sprintf("%dKi", 32_863_000+i%7-less)),
		corev1.ResourcePods:             resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse(fmt.Sprintf("%dKi", 129_886_128-less)),
		"hugepages-1Gi":                 resource.MustParse("0"),
		"hugepages-2Mi":                 resource.MustParse("0"),
		"attachable-volumes-azure-disk": resource.MustParse("16"),
	}
}

// images are below the kubelet's limit of fifty.
func images() (all []corev1.ContainerImage) {
	for n := range 35 {
		repository := fmt.Sprintf("registry.example.test/team-%d/service-%d", n%5, n)
		all = append(all, corev1.ContainerImage{SizeBytes: int64(n+1) << 24, Names: []string{
			fmt.Sprintf("%s@sha256:%064d", repository, n), fmt.Sprintf("%s:v1.2.%d", repository, n),
		}})
	}
	return all
}
