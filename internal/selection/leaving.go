package selection

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// LastOfZone: the donor would not return, and its pool has no other node in its zone that takes pods.
const LastOfZone = "LastOfZone"

// zoneOf is the zone that a node is in; empty if it is in none. A bare number is none: the Azure cloud provider writes the
// fault domain there for machines outside of zones. Source: cloud-provider-azure, Availability Zones, Node Labels.
func zoneOf(n *corev1.Node) string {
	zone := n.Labels[corev1.LabelTopologyZone]
	if strings.Trim(zone, "0123456789") == "" {
		return ""
	}
	return zone
}

// zones are those of a pool's nodes, each with how many of them take pods.
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

// refuse the node if it leaves its zone without one that takes pods. A pool whose nodes are all in one zone gets the next
// one there, too; of another, nobody knows beforehand in which zone that will be, be it made before or after.
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
		"node %s would not return, and pool %s has no other node in zone %s that takes pods; volumes of that zone could be used nowhere in the pool", n.Name, pool, zone)
}

// zoned keeps a donor that does not return from being the last of its zone.
func zoned(s Subject) *cloud.Refusal {
	if !s.Leaves {
		return nil
	}
	all := zones{}
	all.count(s.Node, s.Reserved)
	for i := range s.Peers {
		all.count(&s.Peers[i], s.Reserved)
	}
	return all.refuse(s.Node, s.Pool, s.Reserved)
}

// zonedInPool is the same rule, counted once for the whole pool.
func zonedInPool(s *subject) *cloud.Refusal {
	if !s.Leaves {
		return nil
	}
	return s.zones.refuse(s.Node, s.pool.Name, s.pool.Reserved)
}
