package nodejoin

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/joinhealth"
)

const (
	// daemonLookLife is how long one read of the DaemonSets serves all pools. Only a DaemonSet that fails for minutes
	// matters.
	daemonLookLife = 10 * time.Second
	// maxNodes is the largest number of nodes whose pods are listed by node. With more nodes pods are listed by
	// DaemonSet.
	maxNodes = 20
	// podPage is the number of pods in one request. A DaemonSet may have thousands of pods of some kilobytes.
	podPage = 500
	// manyRestarts is the number of restarts from which a pod is crash looping. Its time of not being Ready is then
	// meaningless.
	manyRestarts = 3
	// longRun is the time after which the kubelet forgets earlier restarts of a container. A crash after such a run is no
	// crash loop.
	longRun = 10 * time.Minute
	// clockSkew is the difference of two clocks that are both right.
	clockSkew = time.Minute
	// generationLabel on a pod is the generation of its template.
	generationLabel = "pod-template-generation"
)

// DaemonSets finds new nodes where a DaemonSet is unready although healthy on other nodes. One LIST of DaemonSets serves all
// pools for a few seconds, with pods only of DaemonSets with fewer Ready pods than desired.
type DaemonSets struct {
	Kube kubernetes.Interface
	// Now is the clock.
	Now func() time.Time
	// Serving, if set, returns the Ready nodes of pools with their instances, and the number of all other Nodes. Pods on other
	// Nodes (of no pool, not Ready, a second Node) say nothing about the health of a DaemonSet.
	Serving func() (instances map[string]string, others int)

	once sync.Once
	turn chan struct{}
	last *unreadyDaemonSets
}

// unreadyDaemonSets is the result of one read so far.
type unreadyDaemonSets struct {
	at   time.Time
	sets []appsv1.DaemonSet
	// nodes have listed pods. whole are the DaemonSets with all pods listed.
	nodes map[string]bool
	whole map[types.UID]bool
	// pods are by DaemonSet and node.
	pods map[types.UID]map[string]daemonPod
	// serving and others are the results of DaemonSets.Serving.
	serving map[string]string
	others  int
}

// daemonPod is the state of a DaemonSet's youngest pod on a node. since is when an unready pod became unready.
type daemonPod struct {
	ready          bool
	since, created time.Time
	generation     string
}

// Unhealthy returns the nodes with an unready DaemonSet that is healthy on other nodes. ignore has DaemonSets as
// namespace/name.
func (d *DaemonSets) Unhealthy(ctx context.Context, nodes, ignore []string) (map[string]UnhealthyDaemonSet, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	d.once.Do(func() { d.turn = make(chan struct{}, 1) })
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if d.last == nil || d.Now().Sub(d.last.at) >= daemonLookLife {
		look, err := d.listUnready(ctx)
		if err != nil {
			return nil, err
		}
		d.last = look
	}
	return d.lacks(ctx, d.last, nodes, ignore)
}

// listUnready lists the DaemonSets with fewer Ready pods than desired. Any other DaemonSet is Ready on every node.
func (d *DaemonSets) listUnready(ctx context.Context) (*unreadyDaemonSets, error) {
	list, err := d.Kube.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list DaemonSets: %w", err)
	}
	look := &unreadyDaemonSets{at: d.Now(), nodes: map[string]bool{}, whole: map[types.UID]bool{}, pods: map[types.UID]map[string]daemonPod{}}
	for i := range list.Items {
		if set := &list.Items[i]; set.Status.NumberReady < set.Status.DesiredNumberScheduled {
			look.sets, look.pods[set.UID] = append(look.sets, *set), map[string]daemonPod{}
		}
	}
	if len(look.sets) > 0 && d.Serving != nil {
		look.serving, look.others = d.Serving()
	}
	return look, nil
}

func (d *DaemonSets) lacks(ctx context.Context, look *unreadyDaemonSets, nodes, ignore []string) (map[string]UnhealthyDaemonSet, error) {
	var sets []*appsv1.DaemonSet
	for i := range look.sets {
		if set := &look.sets[i]; !slices.Contains(ignore, set.Namespace+"/"+set.Name) && mayBeHealthy(set, len(nodes)+look.others) {
			sets = append(sets, set)
		}
	}
	if err := d.podsOn(ctx, look, nodes, sets); err != nil {
		return nil, err
	}
	lacks := map[string]UnhealthyDaemonSet{}
	for _, set := range sets {
		pods := look.pods[set.UID]
		unready := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { pod, found := pods[node]; return !found || pod.ready })
		if len(unready) == 0 {
			continue
		}
		healthy, err := d.isHealthyElsewhere(ctx, look, set, nodes)
		if err != nil {
			return nil, err
		}
		if healthy && slices.ContainsFunc(unready, func(node string) bool { return isNewest(set, pods[node]) }) {
			if err := d.podsOf(ctx, look, set); err != nil {
				return nil, err
			}
		}
		if !healthy {
			continue
		}
		unready = slices.DeleteFunc(unready, func(node string) bool {
			return isNewest(set, pods[node]) && !isProven(nodes, pods, pods[node].generation)
		})
		addLacks(lacks, set, unready, pods)
	}
	return lacks, nil
}

// addLacks notes the DaemonSet for each node. The first DaemonSet of a node stays.
func addLacks(lacks map[string]UnhealthyDaemonSet, set *appsv1.DaemonSet, nodes []string, pods map[string]daemonPod) {
	for _, node := range nodes {
		lack := UnhealthyDaemonSet{DaemonSet: set.Namespace + "/" + set.Name, Since: pods[node].since}
		if before, lacking := lacks[node]; !lacking || lack.isBefore(before) {
			lacks[node] = lack
		}
	}
}

// isNewest reports whether a rollout is in progress, and the pod is of the new template.
func isNewest(set *appsv1.DaemonSet, pod daemonPod) bool {
	current, s := set.Annotations[appsv1.DeprecatedTemplateGeneration], set.Status
	return current != "" && pod.generation == current && (s.ObservedGeneration < set.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled)
}

// isProven reports whether pods of the template are Ready on other nodes.
func isProven(nodes []string, pods map[string]daemonPod, generation string) bool {
	all, ready := 0, 0
	for node, pod := range pods {
		if pod.generation == generation && !slices.Contains(nodes, node) {
			if all++; pod.ready {
				ready++
			}
		}
	}
	return all > 0 && ready*100 >= all*joinhealth.Healthy
}

// isHealthyElsewhere reports whether a DaemonSet is healthy on other nodes. It lists all pods of the DaemonSet only if
// the counts are not sufficient.
func (d *DaemonSets) isHealthyElsewhere(ctx context.Context, look *unreadyDaemonSets, set *appsv1.DaemonSet, nodes []string) (bool, error) {
	pods := look.pods[set.UID]
	if healthyElsewhere(set, nodes, pods) || look.others == 0 {
		return healthyElsewhere(set, nodes, pods), nil
	}
	err := d.podsOf(ctx, look, set)
	return err == nil && healthyOnInstances(nodes, pods, look.serving), err
}

// isBefore orders lacks by time, then by name.
func (l UnhealthyDaemonSet) isBefore(other UnhealthyDaemonSet) bool {
	return l.Since.Before(other.Since) || l.Since.Equal(other.Since) && l.DaemonSet < other.DaemonSet
}

// podsOn reads the DaemonSets' pods on the nodes. The number of requests is bounded, so that forged Nodes cannot hide a
// real node.
func (d *DaemonSets) podsOn(ctx context.Context, look *unreadyDaemonSets, nodes []string, sets []*appsv1.DaemonSet) error {
	if !slices.ContainsFunc(sets, func(set *appsv1.DaemonSet) bool { return !look.whole[set.UID] }) {
		return nil
	}
	unread := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return look.nodes[node] })
	if len(look.nodes)+len(unread) <= maxNodes {
		for _, node := range unread {
			list, err := d.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
				FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(), ResourceVersion: "0",
			})
			if err != nil {
				return fmt.Errorf("list the pods of node %s: %w", node, err)
			}
			look.addPods(list.Items)
			look.nodes[node] = true
		}
		return nil
	}
	if len(unread) == 0 {
		return nil
	}
	for _, set := range sets {
		if err := d.podsOf(ctx, look, set); err != nil {
			return err
		}
	}
	return nil
}

// podsOf reads all pods of a DaemonSet.
func (d *DaemonSets) podsOf(ctx context.Context, look *unreadyDaemonSets, set *appsv1.DaemonSet) error {
	if look.whole[set.UID] {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil //nolint:nilerror // the API server rejects such a DaemonSet, so the DaemonSet has no pods
	}
	options := metav1.ListOptions{LabelSelector: selector.String(), Limit: podPage}
	for {
		list, err := d.Kube.CoreV1().Pods(set.Namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list the pods of DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
		}
		look.addPods(list.Items)
		if options.Continue = list.Continue; options.Continue == "" {
			look.whole[set.UID] = true
			return nil
		}
	}
}

// addPods stores the pods of the look's DaemonSets.
func (l *unreadyDaemonSets) addPods(pods []corev1.Pod) {
	for i := range pods {
		pod := &pods[i]
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "DaemonSet" || pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" {
			continue
		}
		of, unhealthy := l.pods[owner.UID]
		if before, found := of[pod.Spec.NodeName]; unhealthy && (!found || !pod.CreationTimestamp.Time.Before(before.created)) {
			of[pod.Spec.NodeName] = daemonPod{podReady(pod), notReadySince(pod, l.at), pod.CreationTimestamp.Time, pod.Labels[generationLabel]}
		}
	}
}

// mayBeHealthy reports whether a DaemonSet can be healthy elsewhere if so many of its pods are ignored.
func mayBeHealthy(set *appsv1.DaemonSet, uncounted int) bool {
	desired, ready := int(set.Status.DesiredNumberScheduled), int(set.Status.NumberReady)
	desired -= min(uncounted, desired-ready)
	return desired > 0 && ready*100 >= desired*joinhealth.Healthy
}

// healthyElsewhere reports, by the status of the DaemonSet, whether nearly all of its pods on other nodes are Ready.
func healthyElsewhere(set *appsv1.DaemonSet, nodes []string, pods map[string]daemonPod) bool {
	desired, ready := int(set.Status.DesiredNumberScheduled), int(set.Status.NumberReady)
	for _, node := range nodes {
		if pod, found := pods[node]; found {
			desired--
			if pod.ready {
				ready--
			}
		}
	}
	return desired > 0 && ready*100 >= desired*joinhealth.Healthy
}

// healthyOnInstances is healthyElsewhere by all pods of the DaemonSet. Several Nodes of one instance are counted once.
func healthyOnInstances(nodes []string, pods map[string]daemonPod, serving map[string]string) bool {
	own := map[string]bool{}
	for _, node := range nodes {
		own[serving[node]] = true
	}
	instances, ready := map[string]bool{}, 0
	for node, pod := range pods {
		if instance := serving[node]; instance != "" && !own[instance] {
			instances[instance] = instances[instance] || pod.ready
		}
	}
	for _, is := range instances {
		if is {
			ready++
		}
	}
	return len(instances) > 0 && ready*100 >= len(instances)*joinhealth.Healthy
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// notReadySince returns when the pod became unready; for a crash looping pod, its creation. A time of the kubelet before
// the creation of the pod, or far in the future, is from a wrong clock.
func notReadySince(pod *corev1.Pod, now time.Time) time.Time {
	made := pod.CreationTimestamp.Time
	if slices.ContainsFunc(pod.Status.ContainerStatuses, isCrashLooping) {
		return made
	}
	for _, c := range pod.Status.Conditions {
		if at := c.LastTransitionTime.Time; c.Type == corev1.PodReady && at.After(made) && now.Sub(at) > -clockSkew {
			return at
		}
	}
	return made
}

// isCrashLooping reports many restarts, without a long run before the last one.
func isCrashLooping(c corev1.ContainerStatus) bool {
	last := c.LastTerminationState.Terminated
	return c.RestartCount >= manyRestarts && (last == nil || last.FinishedAt.Sub(last.StartedAt.Time) < longRun)
}
