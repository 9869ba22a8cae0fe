package nodecache

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Labels, annotations and conditions are two thirds of a Node after Strip, mostly spare room of maps. Pack writes all
// three into GenerateName, a field without use on a Node, with words shared by all nodes. The cache keeps the object,
// and two packed nodes are equal if the content is equal. Nodes.Of unpacks.
//
// The reservation annotation and the Ready condition stay in place for other readers of the cache.

// packedMark begins packed text. No API text begins with the mark.
const packedMark = "\x00"

// Pack strips and packs a node. Pack does not change a packed node.
func Pack(node *corev1.Node) {
	if packed(node) {
		return
	}
	Strip(node)
	w := writer{bytes: []byte(packedMark), name: node.Name}
	w.texts(node.Labels, shareLabels)
	w.texts(node.Annotations, shareAnnotations)
	w.conditions(node.Status.Conditions)
	node.GenerateName = string(w.bytes)
	node.Labels = nil
	reservation, reserved := node.Annotations[v1alpha1.ReservationAnnotation]
	node.Annotations = nil
	if reserved {
		node.Annotations = map[string]string{v1alpha1.ReservationAnnotation: reservation}
	}
	ready := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if ready < 0 {
		node.Status.Conditions = nil
		return
	}
	node.Status.Conditions = []corev1.NodeCondition{node.Status.Conditions[ready]}
}

func packed(node *corev1.Node) bool {
	return len(node.GenerateName) > 0 && node.GenerateName[:1] == packedMark
}

// unpack returns the node as Strip left the node. A node without packed text is returned unchanged.
func unpack(node *corev1.Node) *corev1.Node {
	if !packed(node) {
		return node
	}
	whole := *node
	r := reader{text: node.GenerateName[len(packedMark):], name: node.Name}
	whole.GenerateName = ""
	whole.Labels, whole.Annotations, whole.Status.Conditions = r.texts(), r.texts(), r.conditions()
	return &whole
}

// The longest values of a map, in bytes, that enter the shared words. Label values repeat among nodes. Annotation
// values are often times or documents, so that only short values enter.
const (
	shareLabels      = maxText
	shareAnnotations = 8
)

// writer packs. A number is encoded with binary.AppendUvarint. A text is a number, and in the last case bytes:
//
//	0        the node's own name
//	2n + 1   word n of the shared words
//	2n + 2   n bytes follow
type writer struct {
	bytes []byte
	name  string
}

func (w *writer) number(n uint64) { w.bytes = binary.AppendUvarint(w.bytes, n) }

// text writes a text. A text longer than share does not enter the shared words.
func (w *writer) text(text string, share int) {
	if text == w.name {
		w.number(0)
		return
	}
	if len(text) <= share {
		if word, known := interned.word(text); known {
			w.number(2*uint64(word) + 1)
			return
		}
	}
	w.number(2*uint64(len(text)) + 2)
	w.bytes = append(w.bytes, text...)
}

func (w *writer) texts(all map[string]string, share int) {
	w.number(uint64(len(all)))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		w.text(key, maxText)
		w.text(all[key], share)
	}
}

func (w *writer) conditions(all []corev1.NodeCondition) {
	w.number(uint64(len(all)))
	for i := range all {
		c := &all[i]
		w.text(string(c.Type), maxText)
		w.text(string(c.Status), maxText)
		w.text(c.Reason, maxText)
		at := uint64(0)
		if !c.LastTransitionTime.IsZero() {
			at = uint64(c.LastTransitionTime.Unix()) + 1
		}
		w.number(at)
	}
}

// reader unpacks the output of writer.
type reader struct {
	text, name string
}

func (r *reader) number() uint64 {
	// The longest number has ten bytes.
	n, length := binary.Uvarint([]byte(r.text[:min(len(r.text), binary.MaxVarintLen64)]))
	r.text = r.text[length:]
	return n
}

func (r *reader) one() string {
	switch n := r.number(); {
	case n == 0:
		return r.name
	case n%2 == 1:
		return interned.of(uint32(n / 2))
	default:
		text := r.text[:n/2-1]
		r.text = r.text[n/2-1:]
		return text
	}
}

func (r *reader) texts() map[string]string {
	n := r.number()
	if n == 0 {
		return nil
	}
	all := make(map[string]string, n)
	for range n {
		key := r.one()
		all[key] = r.one()
	}
	return all
}

func (r *reader) conditions() []corev1.NodeCondition {
	n := r.number()
	if n == 0 {
		return nil
	}
	all := make([]corev1.NodeCondition, n)
	for i := range all {
		c := &all[i]
		c.Type, c.Status, c.Reason = corev1.NodeConditionType(r.one()), corev1.ConditionStatus(r.one()), r.one()
		if at := r.number(); at > 0 {
			c.LastTransitionTime = metav1.NewTime(time.Unix(int64(at-1), 0))
		}
	}
	return all
}
