package nodecache

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastApplied is what kubectl apply keeps on an object: the object once more.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Strip takes off a node what no decision reads, before it is kept: the list of its images, which is most of
// it, addresses, volumes, who wrote which field, and the times and words of its heartbeats. What stays is what
// package selection reads and what package expression promises to a policy's expressions. What many nodes say
// alike is kept once for all of them: read stripped nodes only.
func Strip(node *corev1.Node) {
	node.ManagedFields = nil
	node.GenerateName, node.Generation = "", 0
	node.OwnerReferences, node.Finalizers = nil, nil
	delete(node.Annotations, lastApplied)
	status := &node.Status
	node.Status = corev1.NodeStatus{
		Capacity: alike.amounts(status.Capacity), Allocatable: alike.amounts(status.Allocatable),
		Conditions: slices.Clone(status.Conditions), NodeInfo: status.NodeInfo,
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		c.LastHeartbeatTime, c.Message = metav1.Time{}, ""
		c.Type, c.Reason = corev1.NodeConditionType(alike.text(string(c.Type))), alike.text(c.Reason)
	}
	if len(node.Annotations) == 0 {
		node.Annotations = nil
	}
	if len(node.Labels) == 0 {
		node.Labels = nil
	}
	info := &node.Status.NodeInfo
	for _, text := range []*string{
		&info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion,
		&info.OperatingSystem, &info.Architecture,
	} {
		*text = alike.text(*text)
	}
}

// Limits of what is kept once for all nodes. What comes later is kept by each node itself.
const (
	maxTexts   = 20_000
	maxText    = 64 // bytes
	maxAmounts = 1_000
)

// alike is shared by all nodes of the process.
var alike = shared{known: map[string]uint32{}}

// shared keeps what many nodes say in the same words: names of labels, versions of kernels, and how much of
// everything a machine has.
type shared struct {
	mu    sync.Mutex
	known map[string]uint32
	words []string
	lists []corev1.ResourceList
}

// text is the text, in the copy that all share.
func (s *shared) text(text string) string {
	if word, known := s.word(text); known {
		return s.of(word)
	}
	return text
}

// word is the number of a text that is kept once for all; there is none for one that is kept by each node.
func (s *shared) word(text string) (uint32, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if word, known := s.known[text]; known {
		return word, true
	}
	if len(text) > maxText || len(s.words) >= maxTexts {
		return 0, false
	}
	word := uint32(len(s.words))
	s.known[text], s.words = word, append(s.words, text)
	return word, true
}

// of is the text of a number.
func (s *shared) of(word uint32) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words[word]
}

// amounts is the list, in the copy that all share. The machines of a pool have the same.
func (s *shared) amounts(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, known := range s.lists {
		if equalAmounts(known, list) {
			// The ones that are asked for often come first.
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
