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

// TestTheLastOfAZoneStays names each pool by its nodes' zones, n1's first: "-" is none, and "!" behind one says that the
// node takes no pods. n1 is judged, both as the one that a person names and among all.
func TestTheLastOfAZoneStays(t *testing.T) {
	for pool, refused := range map[string]bool{
		"eu-1 eu-2 eu-3":       true,
		"eu-1 eu-1 eu-2":       false,
		"eu-1 eu-1! eu-2":      true, // the other in its zone would take nothing
		"eu-1 eu-2! eu-2!":     true, // a zone is the pool's though none of its nodes works now
		"eu-1 eu-1 eu-1":       false,
		"eu-1 eu-1! eu-1":      false, // one zone: the next node is in it, too
		"eu-1 - -":             false, // nothing says that the pool has another
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
			subject := Subject{Node: nodes[0], Pool: p.Name, Peers: peers}
			if verdict := verdictOn(t, Choose(p, rules, now), "n1"); slices.Contains(reasons(verdict), LastOfZone) || toldOf(Refusals(subject)) != "" {
				t.Errorf("a donor that returns is refused: %v", verdict)
			}
			p.Leaves, subject.Leaves = allLeave, true
			named, chosen := toldOf(Refusals(subject)), toldOf(verdictOn(t, Choose(p, rules, now), "n1").Refusals)
			if named != chosen {
				t.Errorf("a person is told %q, a policy %q", named, chosen)
			}
			if (named != "") != refused {
				t.Errorf("said %q, and refused should be %t", named, refused)
			}
			if refused && (!strings.Contains(named, "zone eu-1 ") || !strings.Contains(named, "pool workers") || !strings.Contains(named, ": grow the pool until")) {
				t.Errorf("zone, pool and remedy are not all in %q", named)
			}
		})
	}
}

// toldOf is what LastOfZone says; empty if it is not among the refusals.
func toldOf(refusals []cloud.Refusal) string {
	for _, r := range refusals {
		if r.Reason == LastOfZone {
			return r.Message
		}
	}
	return ""
}

// TestNoZoneIsEmptied: whoever is chosen and leaves, a zone that had a node which takes pods has another one, unless the
// whole pool is in one zone. And the rule refuses no more than that: a donor that returns, or has a neighbour in its zone,
// is never refused for it.
func TestNoZoneIsEmptied(t *testing.T) {
	emptied, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pool, rules := drawPool(t)
		leaving := map[string]bool{}
		for _, n := range pool.Nodes {
			in(rapid.SampledFrom([]string{"", "1", "eu-1", "eu-2", "eu-3"}).Draw(t, "zone"))(n)
			leaving[n.Name] = rapid.IntRange(0, 3).Draw(t, "leaves") > 0
		}
		pool.Leaves = func(n *corev1.Node) bool { return leaving[n.Name] }
		c := Choose(pool, rules, now)
		for i, v := range c.Verdicts {
			n := named(pool.Nodes, v.Node)
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
