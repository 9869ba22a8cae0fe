package policy

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastApplied is what kubectl apply keeps on an object: the object once more.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Strip takes off a node what no decision reads, before it is kept: the list of its images, which is most of
// it, addresses, volumes, who wrote which field, and the times and words of its heartbeats. What stays is what
// package selection reads and what package expression promises to a policy's expressions.
func Strip(node *corev1.Node) {
	node.ManagedFields = nil
	node.GenerateName, node.Generation = "", 0
	node.OwnerReferences, node.Finalizers = nil, nil
	delete(node.Annotations, lastApplied)
	status := &node.Status
	node.Status = corev1.NodeStatus{
		Capacity: status.Capacity, Allocatable: status.Allocatable, Conditions: status.Conditions, NodeInfo: status.NodeInfo,
	}
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
		node.Status.Conditions[i].Message = ""
	}
}
