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

// Hardship is what makes a pod hard to move to another node for good.
type Hardship string

// Hardships, the worst first. A pod counts for the first that it has.
const (
	// LocalVolume: its claim is bound to a volume on this node's own disk, so that it can run nowhere else.
	LocalVolume Hardship = "on a local volume"
	// Bare: nothing makes it again.
	Bare Hardship = "that nothing makes again"
	// Protected: it asks not to be evicted.
	Protected Hardship = "that asks not to be evicted"
	// Alone: its budget knows no second pod, and lets this one not go.
	Alone Hardship = "that its budget keeps"
	// HostPath: it writes to a directory of the node, which goes with the node.
	HostPath Hardship = "on a directory of the node"
)

// hardships in their order, each with what tells it.
var hardships = []struct {
	is   Hardship
	tell func(*corev1.Pod, Around) bool
}{
	{LocalVolume, onLocalVolume}, {Bare, bare}, {Protected, protected}, {Alone, alone}, {HostPath, onHostPath},
}

// Around is what of a node's pods they don't say themselves. What is not known makes no pod hard to move.
type Around struct {
	// Budgets of the cluster, or of the pods' namespaces.
	Budgets []policyv1.PodDisruptionBudget
	// Local claims, as namespace/name, are bound to a volume on one node's own disk.
	Local map[string]bool
}

// Burden is what the loss of a node costs others.
type Burden struct {
	// Evictions are pods that have to leave, those that are hard to move among them.
	Evictions int
	// Hard counts pods that are hard to move, by what makes them so.
	Hard map[Hardship]int
}

// Heavy is how many pods are hard to move.
func (b Burden) Heavy() (n int) {
	for _, of := range b.Hard {
		n += of
	}
	return n
}

// String tells the pods that are hard to move: "2 pods that are hard to move (1 on a local volume, 1 that nothing makes
// again)".
func (b Burden) String() string {
	var parts []string
	for _, h := range hardships {
		if n := b.Hard[h.is]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, h.is))
		}
	}
	switch n := b.Heavy(); n {
	case 0:
		return "no pod that is hard to move"
	case 1:
		return fmt.Sprintf("1 pod that is hard to move (%s)", parts[0])
	default:
		return fmt.Sprintf("%d pods that are hard to move (%s)", n, strings.Join(parts, ", "))
	}
}

// BurdenOf the pods that would have to leave a node. Scratch space (emptyDir) makes none hard to move: it ends with its
// pod wherever that goes. Pods that end already are counted, and are not hard.
func BurdenOf(pods []corev1.Pod, around Around) Burden {
	b := Burden{Evictions: len(pods), Hard: map[Hardship]int{}}
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			continue
		}
		for _, h := range hardships {
			if h.tell(&pods[i], around) {
				b.Hard[h.is]++
				break
			}
		}
	}
	return b
}

// ClaimsOf are the pod's claims, by name: those that it names, and those that are made for it.
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

// IsLocal tells whether a volume is on one node's own disk: it says so, or may be used on nodes of one name only.
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

func onLocalVolume(pod *corev1.Pod, around Around) bool {
	return slices.ContainsFunc(ClaimsOf(pod), func(claim string) bool { return around.Local[pod.Namespace+"/"+claim] })
}

func bare(pod *corev1.Pod, _ Around) bool { return metav1.GetControllerOf(pod) == nil }

func protected(pod *corev1.Pod, _ Around) bool {
	return pod.Annotations[v1alpha1.SafeToEvictAnnotation] == "false" || pod.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true"
}

func alone(pod *corev1.Pod, around Around) bool {
	return slices.ContainsFunc(around.Budgets, func(b policyv1.PodDisruptionBudget) bool {
		if b.Namespace != pod.Namespace || b.Status.ExpectedPods > 1 || b.Status.DisruptionsAllowed > 0 {
			return false
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return err == nil && selector.Matches(labels.Set(pod.Labels))
	})
}

// onHostPath tells of a directory that a container may write to. One that is only read is the node's, not the pod's.
func onHostPath(pod *corev1.Pod, _ Around) bool {
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

// Prefer orders a choice's candidates anew by what their capture would cost others: among those that have not failed
// today and score alike, of donors that do not return the one with the fewest pods that are hard to move comes first,
// and of those the one with the fewest evictions. Candidates whose burden is not known come after those whose is, in the
// order that they have.
func (c *Choice) Prefer(pool Pool, burdens map[string]Burden) {
	if len(c.Candidates) == 0 {
		return
	}
	leaving := map[string]bool{}
	for _, n := range pool.Nodes {
		leaving[n.Name] = pool.leaves(n)
	}
	cost := func(v Verdict) (unknown, heavy, evictions int) {
		b, known := burdens[v.Node]
		if !known {
			return 1, 0, 0
		}
		if leaving[v.Node] {
			heavy = b.Heavy()
		}
		return 0, heavy, b.Evictions
	}
	slices.SortStableFunc(c.Candidates, func(a, b Verdict) int {
		if (a.FailedToday == "") != (b.FailedToday == "") {
			return cmp.Compare(len(a.FailedToday), len(b.FailedToday))
		}
		unknownA, heavyA, evictionsA := cost(a)
		unknownB, heavyB, evictionsB := cost(b)
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(unknownA, unknownB), cmp.Compare(heavyA, heavyB), cmp.Compare(evictionsA, evictionsB))
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
		c.Message += fmt.Sprintf(". It does not return; of nodes that are alike, the one with the fewest pods that are hard to move is taken: it has %s", b)
	}
	c.Obstacle = c.Message
}
