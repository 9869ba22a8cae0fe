package node

import (
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// daemonTaints are taints that the DaemonSet controller tolerates for all pods. Source: k8s.io/kubernetes
// pkg/controller/daemon/util, AddOrUpdateDaemonPodTolerations.
var daemonTaints = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure,
	corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable,
}

// BelongsOn reports whether the DaemonSet's controller would create a pod on the node.
func BelongsOn(set *appsv1.DaemonSet, node *corev1.Node) bool {
	spec := set.Spec.Template.Spec
	fits, err := nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity).Match(node)
	if err != nil || !fits {
		return false
	}
	tolerations := slices.Clone(spec.Tolerations)
	for _, taint := range daemonTaints {
		tolerations = append(tolerations, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists})
	}
	if spec.HostNetwork {
		tolerations = append(tolerations, corev1.Toleration{Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists})
	}
	_, kept := schedulingv1.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, true)
	return !kept
}
