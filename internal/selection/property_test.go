package selection

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestEveryCombination tests all combinations of patches, reboots and images against a second, shorter definition of a
// donor.
func TestEveryCombination(t *testing.T) {
	patches := map[string]time.Time{"": {}, "soon": {}, "future": now.Add(time.Hour), "old": builtAt.Add(-time.Hour),
		"bad": builtAt.Add(time.Hour), "good": patchedAt}
	readies := []time.Time{{}, builtAt.Add(-2 * time.Hour), builtAt.Add(30 * time.Minute), builtAt.Add(2 * time.Hour), rebootedAt, now.Add(-time.Minute)}
	cases, candidates := 0, 0
	for patch, at := range patches {
		for _, pending := range []string{"", "false", "2026-01-11T12:00:00Z"} {
			for _, since := range readies {
				for bits := range 16 {
					waived, quarantined, generic, cordoned := bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0
					n := patchedNode("n1", readySince(since), without(patchKey))
					switch {
					case !at.IsZero():
						patchedOn(at)(n)
					case patch != "":
						annotated(patchKey, patch)(n)
					}
					if pending != "" {
						annotated(pendingKey, pending)(n)
					}
					if since.IsZero() {
						notReady(n)
					}
					n.Spec.Unschedulable = cordoned
					pool, rules := poolOf(n, patchedNode("n2")), defaults()
					if waived {
						rules.MaxImageAge = time.Hour
					}
					if quarantined {
						pool.BadUntil = patchedAt.Add(-time.Hour)
					}
					if generic {
						pool.Version, pool.BuiltAt = "", time.Time{}
					}

					known := !at.IsZero() && patch != "future"
					fresh := known && (generic || at.After(builtAt)) && since.After(at)
					suspect := quarantined && known && at.Before(pool.BadUntil) && (generic || at.After(builtAt))
					want := !since.IsZero() && now.Sub(since) >= time.Hour && !cordoned && (pending == "" || pending == "false") &&
						!suspect && (waived || fresh)

					v := verdictOn(t, Choose(pool, rules, now), "n1")
					if got := len(v.Refusals) == 0; got != want {
						t.Errorf("patch %q, pending %q, Ready since %s, waived %v, quarantined %v, generic %v, cordoned %v: candidate %v, want %v (%v)",
							patch, pending, since, waived, quarantined, generic, cordoned, got, want, reasons(v))
					}
					cases++
					if want {
						candidates++
					}
				}
			}
		}
	}
	if cases != len(patches)*3*len(readies)*16 || candidates < 50 {
		t.Errorf("%d cases with %d candidates prove little", cases, candidates)
	}
}

// drawNode draws a node with any set of obstacles, or none.
func drawNode(t *rapid.T, i int) *corev1.Node {
	n := readyNode(fmt.Sprintf("n%02d", i))
	hours := func(what string, most int) time.Time {
		return now.Add(-time.Duration(rapid.IntRange(-1, most).Draw(t, what)) * time.Hour)
	}
	if rapid.IntRange(0, 4).Draw(t, "patched") > 0 {
		patchedOn(hours("patch", 60))(n)
	}
	readySince(hours("since", 60))(n)
	for _, flaw := range []func(*corev1.Node){
		notReady, cordon, annotated(pendingKey, "x"), annotated(patchKey, "x"), annotated(v1alpha1.ReservationAnnotation, `{"name":"p"}`),
		annotated("ignore", ""), func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" },
		func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/master"] = "" },
		func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: now} },
	} {
		if rapid.IntRange(0, 11).Draw(t, "flaw") == 0 {
			flaw(n)
		}
	}
	return n
}

func drawPool(t *rapid.T) (PoolState, Rules) {
	pool, rules := poolOf(), defaults()
	pool.NodeRefusals, pool.FailedToday = map[string][]cloud.Refusal{}, map[string]string{}
	score := map[string]float64{}
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		n := drawNode(t, i)
		pool.Nodes = append(pool.Nodes, n)
		score[n.Name] = float64(rapid.IntRange(0, 2).Draw(t, "score"))
		if rapid.IntRange(0, 3).Draw(t, "failed") == 0 {
			pool.FailedToday[n.Name] = "p"
		}
		if rapid.IntRange(0, 9).Draw(t, "elsewhere") == 0 {
			pool.NodeRefusals[n.Name] = []cloud.Refusal{{Reason: "BuiltFromQuarantined", Message: "m"}}
		}
	}
	pool.OwnNode = fmt.Sprintf("n%02d", rapid.IntRange(0, 20).Draw(t, "own"))
	rules.IgnoreAnnotations = []string{"ignore"}
	rules.MinCandidates = rapid.IntRange(0, 3).Draw(t, "min")
	if rapid.Bool().Draw(t, "age") {
		rules.MaxImageAge = time.Duration(rapid.IntRange(1, 100).Draw(t, "hours")) * time.Hour
	}
	if rapid.Bool().Draw(t, "bad") {
		pool.BadUntil = now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "until")) * time.Hour)
	}
	rules.Expressions = scores{of: score, refuse: fmt.Sprintf("n%02d", rapid.IntRange(0, 20).Draw(t, "refuse")),
		fail: fmt.Sprintf("n%02d", rapid.IntRange(0, 20).Draw(t, "fail"))}
	return pool, rules
}

// TestPropertiesOfChoice tests the properties of every choice.
func TestPropertiesOfChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, rules := drawPool(t)
		c := Choose(pool, rules, now)

		total := len(c.Candidates)
		for _, r := range c.Refusals {
			total += int(r.Count)
		}
		if total != len(pool.Nodes) || len(c.Verdicts) != len(pool.Nodes) {
			t.Fatalf("%d nodes, %d verdicts, %d counted", len(pool.Nodes), len(c.Verdicts), total)
		}
		if (c.Donor != nil) != (c.Reason == DonorChosen) || c.Message == "" {
			t.Fatalf("donor %v for reason %q, %q", c.Donor, c.Reason, c.Message)
		}
		shuffled := pool
		shuffled.Nodes = slices.Clone(pool.Nodes)
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "order"))).Shuffle(len(shuffled.Nodes), func(i, k int) {
			shuffled.Nodes[i], shuffled.Nodes[k] = shuffled.Nodes[k], shuffled.Nodes[i]
		})
		if diff := cmp.Diff(c, Choose(shuffled, rules, now)); diff != "" {
			t.Fatalf("the order of the nodes matters: %s", diff)
		}
		if c.Donor == nil {
			return
		}
		d := c.Donor
		peers := []corev1.Node{}
		for _, n := range pool.Nodes {
			if n.Name != d.Name {
				peers = append(peers, *n)
			}
		}
		// A policy chooses no donor that a person must not capture: the engine would refuse the donor every time.
		if refusals := Refusals(Candidate{Node: d, Pool: pool.Name, Peers: peers, OwnNode: pool.OwnNode}); refusals != nil {
			t.Fatalf("the donor is refused: %v", refusals)
		}
		if d.Spec.Unschedulable || len(pool.NodeRefusals[d.Name]) > 0 || len(c.Candidates) < rules.MinCandidates {
			t.Fatalf("donor %s of %d candidates", d.Name, len(c.Candidates))
		}
		for _, v := range c.Candidates {
			if pool.FailedToday[d.Name] != "" && pool.FailedToday[v.Node] == "" {
				t.Fatalf("%s has failed today and is taken before %s", d.Name, v.Node)
			}
		}
	})
}

// TestRefusedNodesDecideNothing: without a refused node that takes no pods, the candidates stay the same.
func TestRefusedNodesDecideNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, rules := drawPool(t)
		before := Choose(pool, rules, now)
		for i, n := range pool.Nodes {
			if takesPods(n, nil) || len(before.Verdicts[i].Refusals) == 0 {
				continue
			}
			fewer := pool
			fewer.Nodes = slices.Delete(slices.Clone(pool.Nodes), i, i+1)
			after := Choose(fewer, rules, now)
			if diff := cmp.Diff(before.Candidates, after.Candidates); diff != "" {
				t.Fatalf("without %s: %s", n.Name, diff)
			}
		}
	})
}
