package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rebuild is the lasting state of a node's rebuild, for the next process.
type Rebuild struct {
	// From and To are the versions that the node leaves and goes to.
	From string `json:"from"`
	To   string `json:"to"`
	// BootID of the node at the begin; empty if unknown. The node is back when it is Ready under another boot.
	BootID string `json:"bootID"`
	// StartedAt is the begin of the rebuild, and of the drain's time limit.
	StartedAt metav1.Time `json:"startedAt"`
	// AskedAt is the time of the first request to the cloud, written before the request; nil before that. The time limit of
	// the return begins here, and the node may no longer return unchanged.
	AskedAt *metav1.Time `json:"askedAt,omitempty"`
	// Policy of the rebuild, whose controller continues; empty for a rebuild by a person.
	Policy string `json:"policy,omitempty"`
}

// NotRebuiltAnnotation holds a NotRebuilt, on a Node without a successful rebuild. The next successful rebuild removes the
// annotation.
const NotRebuiltAnnotation = "kamino.dev/not-rebuilt"

// NotRebuilt is the reason why a node was not rebuilt, for the next try of any process.
type NotRebuilt struct {
	// To is the intended version of the node.
	To string `json:"to"`
	// Reason in one word, and Message as the part of a sentence after the node's name.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Attempts at this version in a row, and At the end of the last attempt.
	Attempts int         `json:"attempts"`
	At       metav1.Time `json:"at"`
	// Next is the time of a policy's next try; a person may try at any time.
	Next metav1.Time `json:"next"`
}

// NotRebuiltOf reads the reason why a Node was not rebuilt; nil without a readable reason.
func NotRebuiltOf(annotations map[string]string) *NotRebuilt {
	failed, _ := decode[NotRebuilt](annotations, NotRebuiltAnnotation)
	return failed
}

// complete gives a replacement's reservation a Rebuild, if another client removed the Rebuild.
func (r *Reservation) complete() {
	if r.Is(HolderReplacement) && r.Rebuild == nil {
		r.Rebuild = &Rebuild{StartedAt: r.ReservedAt}
	}
}
