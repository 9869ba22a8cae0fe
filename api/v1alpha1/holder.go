package v1alpha1

import "k8s.io/apimachinery/pkg/types"

// HolderKind says what it is that holds a Node.
type HolderKind string

const (
	// HolderPrototype is a capture: name and UID are its Prototype's.
	HolderPrototype HolderKind = "Prototype"
	// HolderReplacement rebuilds nodes that run a bad version. It has no object.
	HolderReplacement HolderKind = "Replacement"
)

// Holder is who holds a Node. All who take nodes out of service share one lock, the ReservationAnnotation.
type Holder struct {
	// Kind is empty in what versions before there were kinds have written: see Is.
	Kind HolderKind `json:"kind,omitempty"`
	Name string     `json:"name"`
	UID  types.UID  `json:"uid"`
}

// Is tells whether the holder is of that kind.
func (h Holder) Is(kind HolderKind) bool {
	if h.Kind != "" {
		return h.Kind == kind
	}
	return (kind == HolderReplacement) == (h.UID == RebuildHolder)
}

// String reads "prototype pool1-2026.03.14" or "a replacement of nodes".
func (h Holder) String() string {
	if h.Is(HolderReplacement) {
		return "a replacement of nodes"
	}
	return "prototype " + h.Name
}
