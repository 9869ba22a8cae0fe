package selection

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// Reasons that respect other software in the cluster.
const (
	// DoNotDisrupt: the node has an annotation against disruption.
	DoNotDisrupt = "DoNotDisrupt"
	// TooManyUnavailable: with the donor, more nodes of the pool would be out of service than allowed.
	TooManyUnavailable = "TooManyUnavailable"
)

// undisrupted refuses a node with the annotation do-not-disrupt, unless the settings allow it. On a reserved node the
// annotation is Kamino's own, and the rule about reservations applies.
func undisrupted(s Candidate) *cloud.Refusal {
	if s.Disrupt || s.Node.Annotations[v1alpha1.DoNotDisruptAnnotation] != "true" || s.Node.Annotations[v1alpha1.ReservationAnnotation] != "" {
		return nil
	}
	return refuse(DoNotDisrupt, "choose another node, or allow the disruption with settings.drain.disrupt: true",
		"node %s must not be disrupted (annotation %s)", s.Node.Name, v1alpha1.DoNotDisruptAnnotation)
}

// outnumbered refuses a node if too many nodes of the pool are out of service. The rule OnlyReadyNode has precedence.
func outnumbered(s Candidate) *cloud.Refusal {
	away := 0
	for i := range s.Peers {
		if unavailable(&s.Peers[i]) {
			away++
		}
	}
	allowed := MayBeAway(s.MaxUnavailable, len(s.Peers)+1)
	if away < allowed || notAlone(s) != nil {
		return nil
	}
	return refuse(TooManyUnavailable, "wait until these nodes are back, or raise settings.outOfService.maxUnavailable", "node %s cannot be drained now: %s",
		s.Node.Name, awaySentence(s.Pool, away, allowed))
}

// unavailable reports whether a node is not Ready or cordoned, by any client.
func unavailable(n *corev1.Node) bool { return !nodestate.Available(n) }

// MayBeAway returns how many nodes of a pool may be out of service: at least the donor.
func MayBeAway(limit intstr.IntOrString, nodes int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&limit, nodes, true)
	if err != nil {
		return 1 // The API server rejects such a value.
	}
	return max(n, 1)
}

func awaySentence(pool string, away, allowed int) string {
	nodes := "nodes of pool %s are"
	if away == 1 {
		nodes = "node of pool %s is"
	}
	return fmt.Sprintf("%d "+nodes+" not Ready or cordoned; the limit including the donor is %d", away, pool, allowed)
}
