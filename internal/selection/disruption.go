package selection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// MoveObstacle is a reason why a pod is hard to move to another node permanently.
type MoveObstacle string

// Hardships, the worst first. Each pod is counted under the first matching hardship.
const (
	// LocalVolume: the pod's claim is bound to a volume on this node's disk, so the pod can run on no other node.
	LocalVolume MoveObstacle = "on a local volume"
	// Bare: the pod has no controller that would create it again.
	Bare MoveObstacle = "that nothing makes again"
	// Protected: the pod has an annotation against eviction.
	Protected MoveObstacle = "that asks not to be evicted"
	// Alone: the pod is the only pod of a PodDisruptionBudget that allows no disruption.
	Alone MoveObstacle = "that its budget keeps"
	// HostPath: the pod writes to a directory of the node. The directory is lost with the node.
	HostPath MoveObstacle = "on a directory of the node"
)

// hardships lists the hardships in order, each with its test.
var hardships = []struct {
	is     MoveObstacle
	report func(*corev1.Pod, PodContext) bool
}{
	{LocalVolume, onLocalVolume}, {Bare, bare}, {Protected, protected}, {Alone, alone}, {HostPath, onHostPath},
}

// PodContext has facts about a node's pods from other objects. A missing fact makes no pod hard to move.
type PodContext struct {
	// Budgets are the PodDisruptionBudgets of the cluster, or of the pods' namespaces.
	Budgets []policyv1.PodDisruptionBudget
	// Local has the claims, as namespace/name, bound to a volume on one node's disk.
	Local map[string]bool
}

// DisruptionCost is the disruption that the loss of a node causes.
type DisruptionCost struct {
	// Evictions is the number of pods that have to leave, including the pods that are hard to move.
	Evictions int
	// Hard is the number of pods by hardship.
	Hard map[MoveObstacle]int
}

// Heavy returns the number of pods that are hard to move.
func (b DisruptionCost) Heavy() (n int) {
	for _, of := range b.Hard {
		n += of
	}
	return n
}

// String lists the pods that are hard to move: "2 pods that are hard to move (1 on a local volume, 1 that nothing makes
// again)".
func (b DisruptionCost) String() string {
	var parts []string
	for _, h := range hardships {
		if n := b.Hard[h.is]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, h.is))
		}
	}
	switch n := b.Heavy(); n {
	case 0:
		return "no pods that are hard to move"
	case 1:
		return fmt.Sprintf("1 pod that is hard to move (%s)", parts[0])
	default:
		return fmt.Sprintf("%d pods that are hard to move (%s)", n, strings.Join(parts, ", "))
	}
}

// BurdenOf returns the burden of the pods that would have to leave a node. An emptyDir makes no pod hard to move,
// because emptyDir volumes end with the pod in any case. Terminating pods count as evictions only.
func BurdenOf(pods []corev1.Pod, around PodContext) DisruptionCost {
	b := DisruptionCost{Evictions: len(pods), Hard: map[MoveObstacle]int{}}
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			continue
		}
		for _, h := range hardships {
			if h.report(&pods[i], around) {
				b.Hard[h.is]++
				break
			}
		}
	}
	return b
}

// ClaimsOf returns the names of the pod's claims: named claims and claims of ephemeral volumes.
func ClaimsOf(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

// IsLocal reports whether a volume is on one node's disk: by its type, or by a node affinity to one hostname.
func IsLocal(v *corev1.PersistentVolume) bool {
	if v.Spec.Local != nil || v.Spec.HostPath != nil {
		return true
	}
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return false
	}
	terms := v.Spec.NodeAffinity.Required.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == corev1.LabelHostname && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
		})
	})
}

func onLocalVolume(pod *corev1.Pod, around PodContext) bool {
	return slices.ContainsFunc(ClaimsOf(pod), func(claim string) bool { return around.Local[pod.Namespace+"/"+claim] })
}

func bare(pod *corev1.Pod, _ PodContext) bool { return metav1.GetControllerOf(pod) == nil }

func protected(pod *corev1.Pod, _ PodContext) bool {
	return pod.Annotations[v1alpha1.SafeToEvictAnnotation] == "false" || pod.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true"
}

func alone(pod *corev1.Pod, around PodContext) bool {
	return slices.ContainsFunc(around.Budgets, func(b policyv1.PodDisruptionBudget) bool {
		if b.Namespace != pod.Namespace || b.Status.ExpectedPods > 1 || b.Status.DisruptionsAllowed > 0 {
			return false
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return err == nil && selector.Matches(labels.Set(pod.Labels))
	})
}

// onHostPath reports whether a container can write to a directory of the node. A read-only mount is not the pod's data.
func onHostPath(pod *corev1.Pod, _ PodContext) bool {
	paths := map[string]bool{}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.HostPath != nil {
			paths[v.Name] = true
		}
	}
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return paths[m.Name] && !m.ReadOnly })
	})
}

// Prefer sorts the candidates: no failure today, then higher scores, then less disruption. A donor that will be replaced is
// compared by the pods that are hard to move, then by evictions. Unknown costs come last.
func (c *Choice) Prefer(pool PoolState, burdens map[string]DisruptionCost) {
	if len(c.Candidates) == 0 {
		return
	}
	leaving := map[string]bool{}
	for _, n := range pool.Nodes {
		leaving[n.Name] = pool.isRemoved(n)
	}
	cost := func(v NodeVerdict) (unknown, heavy, evictions int) {
		b, known := burdens[v.Node]
		if !known {
			return 1, 0, 0
		}
		if leaving[v.Node] {
			heavy = b.Heavy()
		}
		return 0, heavy, b.Evictions
	}
	slices.SortStableFunc(c.Candidates, func(a, b NodeVerdict) int {
		if (a.FailedToday == "") != (b.FailedToday == "") {
			return cmp.Compare(len(a.FailedToday), len(b.FailedToday))
		}
		unknownA, heavyA, evictionsA := cost(a)
		unknownB, heavyB, evictionsB := cost(b)
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ZoneNodes, a.ZoneNodes), cmp.Compare(unknownA, unknownB),
			cmp.Compare(heavyA, heavyB), cmp.Compare(evictionsA, evictionsB))
	})
	best := c.Candidates[0].Node
	i := slices.IndexFunc(pool.Nodes, func(n *corev1.Node) bool { return n.Name == best })
	if i < 0 {
		return
	}
	c.Best = pool.Nodes[i]
	if c.Donor == nil {
		return
	}
	c.Donor, c.Message = c.Best, chosen(pool.Name, c.Candidates)
	if b, known := burdens[best]; known && leaving[best] {
		c.Message += fmt.Sprintf(". The donor will be replaced, so that among equal nodes the donor has the fewest pods that are hard to move: %s", b)
	}
	c.Obstacle = c.Message
}
