package selection

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// LastOfZone: the donor would be replaced, and the pool has no other node in the donor's zone that accepts pods.
const LastOfZone = "LastOfZone"

// zoneOf returns the zone of a node; empty without a zone. A bare number is a fault domain: the Azure cloud provider
// writes fault domains for machines outside of zones. Source: cloud-provider-azure, Availability Zones, Node Labels.
func zoneOf(n *corev1.Node) string {
	zone := n.Labels[corev1.LabelTopologyZone]
	if strings.Trim(zone, "0123456789") == "" {
		return ""
	}
	return zone
}

// zones has the number of nodes that accept pods for each zone of a pool.
type zones map[string]int

func (z zones) count(n *corev1.Node, reserved func(*corev1.Node) bool) {
	zone := zoneOf(n)
	if zone == "" {
		return
	}
	takers := 0
	if takesPods(n, reserved) {
		takers = 1
	}
	z[zone] += takers
}

// refuse refuses the node if its zone would be left without a node that accepts pods. In a pool with one zone the
// replacement is in the same zone. In any other pool the zone of the replacement is unknown beforehand.
func (z zones) refuse(n *corev1.Node, pool string, reserved func(*corev1.Node) bool) *cloud.Refusal {
	zone := zoneOf(n)
	others := z[zone]
	if takesPods(n, reserved) {
		others--
	}
	if zone == "" || len(z) < 2 || others > 0 {
		return nil
	}
	return refuse(LastOfZone, "grow the pool until that zone has two nodes, or choose a node of another zone",
		"node %s would be removed, and pool %s has no other schedulable node in zone %s; pods could not use volumes of the zone", n.Name, pool, zone)
}

// zoned refuses a donor that would be replaced if it is the last of its zone.
func zoned(s Candidate) *cloud.Refusal {
	if !s.DonorReplaced {
		return nil
	}
	all := zones{}
	all.count(s.Node, s.Reserved)
	for i := range s.Peers {
		all.count(&s.Peers[i], s.Reserved)
	}
	return all.refuse(s.Node, s.Pool, s.Reserved)
}

// zonedInPool is zoned with the zones counted once for the whole pool.
func zonedInPool(s *subject) *cloud.Refusal {
	if !s.DonorReplaced {
		return nil
	}
	return s.zones.refuse(s.Node, s.pool.Name, s.pool.Reserved)
}
