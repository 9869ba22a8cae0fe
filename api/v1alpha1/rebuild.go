package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RebuildAnnotation stands on a Node that a version of Kamino has taken whose Reservation had no Rebuild, and holds that.
const RebuildAnnotation = "kamino.dev/rebuild"

// Rebuild is what the rebuilding of a node must not forget if whoever drives it ends.
type Rebuild struct {
	// From and To are the versions that the node leaves and goes to.
	From string `json:"from"`
	To   string `json:"to"`
	// BootID is the node's when it was taken; empty if that is not known. It is back when it is Ready under another one.
	BootID string `json:"bootID"`
	// StartedAt is when it was taken. The drain's time limit counts from here.
	StartedAt metav1.Time `json:"startedAt"`
}

// complete gives a replacement's reservation what stood beside it, as far as it is there and can be read.
func (r *Reservation) complete(annotations map[string]string) {
	if !r.Is(HolderReplacement) || r.Rebuild != nil {
		return
	}
	if rebuild, err := decode[Rebuild](annotations, RebuildAnnotation); err == nil && rebuild != nil {
		r.Rebuild = rebuild
		return
	}
	r.Rebuild = &Rebuild{StartedAt: r.ReservedAt}
}
