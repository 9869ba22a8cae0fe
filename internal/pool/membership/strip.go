package membership

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastApplied is the annotation of kubectl apply with a copy of the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Strip removes the parts of a node that no decision reads: images (the largest), addresses, volumes, managed fields and
// heartbeats. Fields for expressions stay. Stripped nodes share equal values: do not change the nodes.
func Strip(node *corev1.Node) {
	node.ManagedFields = nil
	node.GenerateName, node.Generation = "", 0
	node.OwnerReferences, node.Finalizers = nil, nil
	delete(node.Annotations, lastApplied)
	status := &node.Status
	node.Status = corev1.NodeStatus{
		Capacity: interned.amounts(status.Capacity), Allocatable: interned.amounts(status.Allocatable),
		Conditions: slices.Clone(status.Conditions), NodeInfo: status.NodeInfo,
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.LastHeartbeatTime, c.Message = metav1.Time{}, ""
		c.Type, c.Reason = corev1.NodeConditionType(interned.text(string(c.Type))), interned.text(c.Reason)
	}
	node.Labels = interned.texts(node.Labels, node.Name, maxText)
	node.Annotations = interned.texts(node.Annotations, node.Name, maxAnnotation)
	info := &node.Status.NodeInfo
	for _, text := range []*string{
		&info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion,
		&info.OperatingSystem, &info.Architecture,
	} {
		*text = interned.text(*text)
	}
}

// Limits of the shared values. Beyond the limits each node keeps its own copy.
const (
	maxTexts   = 20_000
	maxText    = 64 // bytes
	maxAmounts = 1_000
	// maxAnnotation is the longest shared value of an annotation, in bytes. Longer values are often times or documents.
	maxAnnotation = 8
)

// interned is shared by all nodes of the process.
var interned = internedValues{known: map[string]string{}}

// internedValues interns values that many nodes have in common: label names, kernel versions, resource lists.
type internedValues struct {
	mu    sync.Mutex
	known map[string]string
	lists []corev1.ResourceList
}

// text returns the shared copy of the text.
func (s *internedValues) text(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, found := s.known[text]; found {
		return known
	}
	if len(text) <= maxText && len(s.known) < maxTexts {
		s.known[text] = text
	}
	return text
}

// texts returns a copy of the map with shared keys and values. The node's own name and values longer than longest stay
// out of the shared texts.
func (s *internedValues) texts(all map[string]string, name string, longest int) map[string]string {
	if len(all) == 0 {
		return nil
	}
	out := make(map[string]string, len(all))
	for key, value := range all {
		switch {
		case value == name:
			value = name
		case len(value) <= longest:
			value = s.text(value)
		}
		out[s.text(key)] = value
	}
	return out
}

// amounts returns the shared copy of the list. The machines of a pool have equal lists.
func (s *internedValues) amounts(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, known := range s.lists {
		if equalAmounts(known, list) {
			// Frequent lists move to the front.
			if i > 0 {
				s.lists[i-1], s.lists[i] = s.lists[i], s.lists[i-1]
			}
			return known
		}
	}
	if len(s.lists) < maxAmounts {
		s.lists = append(s.lists, list)
	}
	return list
}

func equalAmounts(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, amount := range a {
		other, found := b[name]
		if !found || amount.Format != other.Format || amount.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
