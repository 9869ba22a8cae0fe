package trialnode

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/trial"
)

// targetLabels is the annotation of a Service of AWS with the labels of its targets. Source: AWS Load Balancer Controller.
const targetLabels = "service.beta.kubernetes.io/aws-load-balancer-target-node-labels"

// selectors are the DaemonSets and Services that select nodes by labels that only the first node has, by the label's key. Without such labels
// nothing is read, and Services only with the right to list them.
func selectors(ctx context.Context, a *attempt, peers []trial.Peer, on *daemonPods) (map[string]string, error) {
	found := map[string]string{}
	for key := range peers[0].Node.Labels {
		if !sharesLabel(peers[1:], key) {
			found[key] = ""
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	add := func(by string, keys ...string) {
		for _, key := range keys {
			if _, asked := found[key]; asked {
				found[key] = by
			}
		}
	}
	for i := range on.sets {
		add("DaemonSet "+on.sets[i].Namespace+"/"+on.sets[i].Name, keysOf(&on.sets[i].Spec.Template.Spec)...)
	}
	services, err := a.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if apierrors.IsForbidden(err) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	for i := range services.Items {
		s := &services.Items[i]
		for pair := range strings.SplitSeq(s.Annotations[targetLabels], ",") {
			key, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
			add("Service "+s.Namespace+"/"+s.Name, key)
		}
	}
	return found, nil
}

func sharesLabel(peers []trial.Peer, key string) bool {
	for _, p := range peers {
		if _, has := p.Node.Labels[key]; has {
			return true
		}
	}
	return false
}

// keysOf are the labels by which a pod selects its node.
func keysOf(pod *corev1.PodSpec) (keys []string) {
	for key := range pod.NodeSelector {
		keys = append(keys, key)
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil || pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return keys
	}
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			keys = append(keys, e.Key)
		}
	}
	return keys
}
