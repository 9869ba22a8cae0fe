package selection

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func in(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
}

func allLeave(*corev1.Node) bool { return true }

// TestTheLastOfAZoneStays: the key lists the zones of the nodes, n1 first. "-" is no zone; "!" marks a node that takes
// no pods. n1 is tested as the named donor and among all nodes.
func TestTheLastOfAZoneStays(t *testing.T) {
	for pool, refused := range map[string]bool{
		"eu-1 eu-2 eu-3":       true,
		"eu-1 eu-1 eu-2":       false,
		"eu-1 eu-1! eu-2":      true, // the second node of the zone takes no pods
		"eu-1 eu-2! eu-2!":     true, // a zone counts even if no node of the zone works
		"eu-1 eu-1 eu-1":       false,
		"eu-1 eu-1! eu-1":      false, // the pool has one zone, so the next node is in the same zone
		"eu-1 - -":             false, // no second zone is known
		"- eu-1 eu-2":          false,
		"0 1 2":                false, // fault domains
		"0 eu-1":               false,
		"eu-1 0":               false,
		"eu-1 eu-10 eu-10":     true,
		"eu-1 eu-1 eu-1! eu-2": false,
	} {
		t.Run(pool, func(t *testing.T) {
			var nodes []*corev1.Node
			var peers []corev1.Node
			for i, zone := range strings.Fields(pool) {
				n := patchedNode(fmt.Sprintf("n%d", i+1))
				if name := strings.TrimSuffix(zone, "!"); name != "-" {
					in(name)(n)
				}
				if strings.HasSuffix(zone, "!") {
					cordon(n)
				}
				nodes = append(nodes, n)
				if i > 0 {
					peers = append(peers, *n)
				}
			}
			p, rules := poolOf(nodes...), defaults()
			subject := Candidate{Node: nodes[0], Pool: p.Name, Peers: peers}
			if verdict := verdictOn(t, Choose(p, rules, now), "n1"); slices.Contains(reasons(verdict), LastOfZone) ||
				lastOfZoneMessage(Refusals(subject)) != "" {
				t.Errorf("a donor that returns is refused: %v", verdict)
			}
			p.DonorReplaced, subject.DonorReplaced = allLeave, true
			named, chosen := lastOfZoneMessage(Refusals(subject)), lastOfZoneMessage(verdictOn(t, Choose(p, rules, now), "n1").Refusals)
			if named != chosen {
				t.Errorf("a person is shown %q, a policy %q", named, chosen)
			}
			if (named != "") != refused {
				t.Errorf("said %q, and refused should be %t", named, refused)
			}
			if refused && (!strings.Contains(named, "zone eu-1;") || !strings.Contains(named, "pool workers") ||
				!strings.Contains(named, ": grow the pool until")) {
				t.Errorf("zone, pool and remedy are not all in %q", named)
			}
		})
	}
}

// lastOfZoneMessage returns the message of LastOfZone; empty without such a refusal.
func lastOfZoneMessage(refusals []cloud.Refusal) string {
	for _, r := range refusals {
		if r.Reason == LastOfZone {
			return r.Message
		}
	}
	return ""
}

// TestNoZoneIsEmptied: after the donor leaves, the zone still has a node that takes pods, unless the pool has one zone.
// A donor that returns, or with a neighbour in its zone, is never refused for LastOfZone.
func TestNoZoneIsEmptied(t *testing.T) {
	emptied, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pool, rules := drawPool(t)
		leaving := map[string]bool{}
		for _, n := range pool.Nodes {
			in(rapid.SampledFrom([]string{"", "1", "eu-1", "eu-2", "eu-3"}).Draw(t, "zone"))(n)
			leaving[n.Name] = rapid.IntRange(0, 3).Draw(t, "leaves") > 0
		}
		pool.DonorReplaced = func(n *corev1.Node) bool { return leaving[n.Name] }
		c := Choose(pool, rules, now)
		for i, v := range c.Verdicts {
			n := nodeNamed(pool.Nodes, v.Node)
			takers, others := 0, false
			for _, other := range pool.Nodes {
				zone, mine := other.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelTopologyZone]
				if zone == mine && other.Name != n.Name && takesPods(other, nil) {
					takers++
				}
				others = others || len(zone) > 1 && zone != mine
			}
			last := leaving[n.Name] && len(n.Labels[corev1.LabelTopologyZone]) > 1 && takers == 0 && others
			if got := slices.Contains(reasons(v), LastOfZone); got != last {
				t.Fatalf("node %s of %v: refused %t, and it is the last of its zone: %t", v.Node, pool.Nodes[i].Labels, got, last)
			}
			if last {
				refused++
			}
			if last && c.Donor != nil && c.Donor.Name == n.Name {
				emptied++
			}
		}
	})
	if emptied > 0 || refused == 0 {
		t.Errorf("%d zones were emptied, %d nodes were refused for that", emptied, refused)
	}
}
