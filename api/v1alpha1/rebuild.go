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
	// AskedAt is when its cloud was first asked to rebuild it, written before; nil if that was not so. The time limit to come
	// back counts from here, and the node may no longer be given back as it was.
	AskedAt *metav1.Time `json:"askedAt,omitempty"`
	// Policy that had the node taken, whose controller goes on with it; empty if a person did.
	Policy string `json:"policy,omitempty"`
}

// NotRebuiltAnnotation stands on a Node that was to be rebuilt and was not, and holds a NotRebuilt. It goes with the rebuild
// that succeeds.
const NotRebuiltAnnotation = "kamino.dev/not-rebuilt"

// NotRebuilt is why a node was not rebuilt, for whoever tries it next, be it another process.
type NotRebuilt struct {
	// To is the version that the node was to go to.
	To string `json:"to"`
	// Reason in one word, and Message as part of a sentence behind the node's name.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Attempts towards this version, one after the other, and At the end of the last one.
	Attempts int         `json:"attempts"`
	At       metav1.Time `json:"at"`
	// Next is when a policy tries it again; a person may at any time.
	Next metav1.Time `json:"next"`
}

// NotRebuiltOf reads why a Node was not rebuilt; nil if nothing is said, or nothing that can be read.
func NotRebuiltOf(annotations map[string]string) *NotRebuilt {
	failed, _ := decode[NotRebuilt](annotations, NotRebuiltAnnotation)
	return failed
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
