package trialnode

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	cluster "github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/trial"
)

// healthyShare is the percentage of Ready pods on other nodes from which a DaemonSet is healthy.
const healthyShare = 80

// daemonPods are the DaemonSets of the cluster, and the pods on the trial node.
type daemonPods struct {
	sets []appsv1.DaemonSet
	pods []corev1.Pod
}

func readDaemonPods(ctx context.Context, a *attempt, node *corev1.Node) (*daemonPods, error) {
	sets, err := a.Kube.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list daemonsets: %w", err)
	}
	pods, err := podsOn(ctx, a, node)
	return &daemonPods{sets.Items, pods}, err
}

func podsOn(ctx context.Context, a *attempt, node *corev1.Node) ([]corev1.Pod, error) {
	pods, err := a.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node.Name).String()})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node.Name, err)
	}
	return pods.Items, nil
}

func ignoredSets(a *attempt) []string { return a.Prototype.Spec.Settings.Trial.IgnoreDaemonSets }

// daemons are the DaemonSets of the node that are healthy on other nodes, with their state on this node.
func (a *attempt) daemons(ctx context.Context, now time.Time, node *corev1.Node, k *trialRecord, on *daemonPods) ([]trial.Daemon, error) {
	found, unhealthy := daemonsOn(node, on, ignoredSets(a), nil)
	if unhealthy {
		forged, err := forgedOthers(ctx, a, node)
		if err != nil {
			return nil, err
		}
		found, _ = daemonsOn(node, on, ignoredSets(a), forged)
	}
	all := make([]trial.Daemon, len(found))
	known := map[string]v1alpha1.TrialDaemonSet{}
	for i, d := range found {
		name := d.set.Namespace + "/" + d.set.Name
		all[i], known[name] = observeDaemon(name, d.pod, k.DaemonSets[name], now)
		if !all[i].Ready && isNewest(d.set, d.pod) {
			proven, err := isProven(ctx, a, d.set, d.pod)
			if err != nil {
				return nil, err
			}
			all[i].Rollout = !proven
		}
	}
	k.DaemonSets = known
	return all, nil
}

// observeDaemon returns the state of a DaemonSet on the node, and the next record. The time without a Ready pod starts
// again with a pod of another template, because a rollout replaces pods. Restarts count from the first Ready on.
func observeDaemon(name string, pod *corev1.Pod, was v1alpha1.TrialDaemonSet, now time.Time) (trial.Daemon, v1alpha1.TrialDaemonSet) {
	d, next := daemon(name, pod), was
	if pod != nil && pod.UID != was.Pod {
		next = v1alpha1.TrialDaemonSet{Pod: pod.UID, Generation: pod.Labels[generationLabel], UnreadySince: was.UnreadySince}
		if was.Generation != "" && was.Generation != next.Generation {
			next.UnreadySince = metav1.Time{}
		}
	}
	switch {
	case d.Ready:
		next.UnreadySince = metav1.Time{}
		if !next.WasReady {
			next.WasReady, next.Restarts = true, d.Restarts
		}
	case next.UnreadySince.IsZero():
		next.UnreadySince = metav1.NewTime(now.Truncate(time.Second))
	}
	d.Since = next.UnreadySince.Time
	if d.Restarts = max(0, d.Restarts-next.Restarts); !next.WasReady {
		d.Restarts = 0
	}
	return d, next
}

// generationLabel on a pod is the generation of its template. The annotation of the DaemonSet has the current generation.
// Source: k8s.io/kubernetes pkg/controller/daemon/util, CreatePodTemplate.
const generationLabel = "pod-template-generation"

// isNewest reports whether a rollout is in progress, and the pod is of the new template.
func isNewest(set *appsv1.DaemonSet, pod *corev1.Pod) bool {
	current, s := set.Annotations[appsv1.DeprecatedTemplateGeneration], set.Status
	return pod != nil && current != "" && pod.Labels[generationLabel] == current &&
		(s.ObservedGeneration < set.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled)
}

// isProven reports whether the pods of the pod's template are Ready on other nodes.
func isProven(ctx context.Context, a *attempt, set *appsv1.DaemonSet, here *corev1.Pod) (bool, error) {
	pods, err := podsOfSet(ctx, a, set)
	if err != nil {
		return false, err
	}
	all, ready := 0, 0
	for i := range pods {
		if p := &pods[i]; p.DeletionTimestamp == nil && p.Spec.NodeName != here.Spec.NodeName && p.Labels[generationLabel] == here.Labels[generationLabel] {
			if all++; podReady(p) {
				ready++
			}
		}
	}
	return all > 0 && ready*100 >= all*healthyShare, nil
}

// maxKubeletChecks limits the other Nodes with a check for a kubelet.
const maxKubeletChecks = 30

// forgedOthers are other Nodes without a kubelet. Pods of DaemonSets are never Ready on such Nodes, so many forged Nodes
// would make each DaemonSet look unhealthy. Nodes that are not Ready come first, then the youngest.
func forgedOthers(ctx context.Context, a *attempt, node *corev1.Node) (forged []*corev1.Node, err error) {
	others := slices.DeleteFunc(a.all(), func(n *corev1.Node) bool { return n.UID == node.UID })
	slices.SortStableFunc(others, func(x, y *corev1.Node) int {
		if x, y := nodestate.Ready(x), nodestate.Ready(y); x != y {
			return map[bool]int{false: -1, true: 1}[x]
		}
		return y.CreationTimestamp.Compare(x.CreationTimestamp.Time)
	})
	asked := append([]*corev1.Node{node}, others[:min(len(others), maxKubeletChecks)]...)
	without, err := cluster.WithoutKubelet(ctx, a.Kube, asked, a.all)
	for _, n := range asked[1:] {
		if without[n.UID] {
			forged = append(forged, n)
		}
	}
	return forged, err
}

// daemonsOn are the DaemonSets that belong on the node and are healthy on other nodes, without forged nodes. unhealthy
// reports that a DaemonSet is unhealthy.
func daemonsOn(node *corev1.Node, on *daemonPods, ignored []string, forged []*corev1.Node) (found []placedPod, unhealthy bool) {
	for i := range on.sets {
		set := &on.sets[i]
		name := set.Namespace + "/" + set.Name
		pod := podOf(set, on.pods)
		if slices.Contains(ignored, name) || set.DeletionTimestamp != nil || pod == nil && !cluster.BelongsOn(set, node) {
			continue
		}
		if !healthyElsewhere(set, pod, forged) {
			unhealthy = true
			continue
		}
		found = append(found, placedPod{set, pod})
	}
	slices.SortFunc(found, func(x, y placedPod) int {
		return cmp.Or(cmp.Compare(x.set.Namespace, y.set.Namespace), cmp.Compare(x.set.Name, y.set.Name))
	})
	return found, unhealthy
}

// placedPod is a DaemonSet with its pod on the node; nil without a pod.
type placedPod struct {
	set *appsv1.DaemonSet
	pod *corev1.Pod
}

// podOf returns the youngest pod of a DaemonSet on the node that is not in deletion, because a rollout replaces pods.
func podOf(set *appsv1.DaemonSet, pods []corev1.Pod) *corev1.Pod {
	var youngest *corev1.Pod
	for i := range pods {
		owner := metav1.GetControllerOf(&pods[i])
		if owner == nil || owner.UID != set.UID || pods[i].DeletionTimestamp != nil {
			continue
		}
		if youngest == nil || youngest.CreationTimestamp.Before(&pods[i].CreationTimestamp) {
			youngest = &pods[i]
		}
	}
	return youngest
}

// healthyElsewhere counts pods without the pod of this node, present or missing, and without pods of forged Nodes.
func healthyElsewhere(set *appsv1.DaemonSet, here *corev1.Pod, forged []*corev1.Node) bool {
	wanted, ready := set.Status.DesiredNumberScheduled, set.Status.NumberReady
	if here != nil || set.Status.CurrentNumberScheduled < wanted {
		wanted--
	}
	for _, n := range forged {
		if cluster.BelongsOn(set, n) {
			wanted--
		}
	}
	if here != nil && podReady(here) {
		ready--
	}
	return wanted > 0 && int64(ready)*100 >= int64(wanted)*healthyShare
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// daemon is a DaemonSet with the state of its pod on the node.
func daemon(name string, pod *corev1.Pod) trial.Daemon {
	d := trial.Daemon{Name: name, Why: "no pod on the node"}
	if pod == nil {
		return d
	}
	d.Ready, d.Why = podReady(pod), ""
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if d.Restarts = max(d.Restarts, s.RestartCount); d.Why != "" {
			continue
		}
		switch {
		case s.LastTerminationState.Terminated != nil:
			d.Why = fmt.Sprintf("container %s ended with exit code %d", s.Name, s.LastTerminationState.Terminated.ExitCode)
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			d.Why = strings.TrimSuffix(fmt.Sprintf("container %s: %s: %s", s.Name, s.State.Waiting.Reason, brief(s.State.Waiting.Message)), ": ")
		}
	}
	if d.Ready && d.Restarts == 0 {
		d.Why = ""
	}
	return d
}

// maxMessage limits another component's message, in characters. The first keptStart characters name the operation, and the
// end of a wrapped error names the cause.
const (
	maxMessage = 200
	keptStart  = 60
)

// brief shortens a message of another component in the middle, in one line.
func brief(text string) string {
	runes := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " "))
	if len(runes) > maxMessage {
		return string(runes[:keptStart]) + " … " + string(runes[len(runes)-(maxMessage-keptStart-len([]rune(" … "))):])
	}
	return string(runes)
}
