package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// RebuildAnnotation stands on a Node that is being rebuilt and holds a Rebuild as JSON. It is written with
	// the ReservationAnnotation, before anything is done to the node.
	RebuildAnnotation = "kamino.dev/rebuild"

	// RebuildHolder is the name and the UID of the Holder that a rebuild's Reservation names.
	RebuildHolder = "kamino-rollback"
)

// Rebuild is what the rebuilding of a node must not forget if whoever drives it ends.
//
// +kubebuilder:object:generate=false
type Rebuild struct {
	// From and To are the versions that the node leaves and goes to.
	From string `json:"from"`
	To   string `json:"to"`
	// BootID is the node's when it was taken. It is back when it is Ready under another one.
	BootID string `json:"bootID"`
	// StartedAt is when it was taken. The drain's time limit counts from here.
	StartedAt metav1.Time `json:"startedAt"`
}

// RebuildOf reads a Node's rebuild. It is nil if there is none.
func RebuildOf(annotations map[string]string) (*Rebuild, error) {
	return decode[Rebuild](annotations, RebuildAnnotation)
}
