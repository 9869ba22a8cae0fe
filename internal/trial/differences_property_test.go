package trial

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// faults change one node, each in one property.
var faults = []func(*Peer){
	func(p *Peer) { amounts(*p, "pods", "8") },
	func(p *Peer) { amounts(*p, "ephemeral-storage", "1Gi") },
	func(p *Peer) { delete(p.Node.Status.Allocatable, "nvidia.com/gpu") },
	func(p *Peer) { p.Node.Spec.Taints = nil },
	func(p *Peer) {
		p.Node.Spec.Taints = append(p.Node.Spec.Taints, corev1.Taint{Key: "broken", Effect: corev1.TaintEffectNoSchedule})
	},
	func(p *Peer) { delete(p.Node.Labels, "node.kubernetes.io/instance-type") },
	func(p *Peer) { p.Node.Labels["agentpool"] = "pool2" },
	func(p *Peer) { p.Node.Status.Conditions[1].Status = corev1.ConditionTrue },
	func(p *Peer) { p.Node.Status.NodeInfo.KubeletVersion = "v1.29.0" },
	func(p *Peer) { p.Node.Status.Images = nil },
	func(p *Peer) { p.Drivers = nil },
	func(p *Peer) { p.DaemonSets = p.DaemonSets[:1] },
	func(p *Peer) { p.Offset = offset(-time.Hour) },
}

// drawnPool draws a node and its peers, each with some faults.
func drawnPool(t *rapid.T) (Peer, []Peer) {
	faulty := func(i int) Peer {
		p := poolNode(i)
		p.Node.Status.Allocatable["ephemeral-storage"] = resource.MustParse("30Gi")
		for _, f := range rapid.SliceOfN(rapid.IntRange(0, len(faults)-1), 0, 3).Draw(t, fmt.Sprint("faults of ", i)) {
			faults[f](&p)
		}
		return p
	}
	others := make([]Peer, rapid.IntRange(2, 6).Draw(t, "others"))
	for i := range others {
		others[i] = faulty(i)
	}
	return faulty(9), others
}

var ofPool = Exceptions{Pool: []string{"pool"}, Server: "v1.37.1"}

func namesOf(found []Difference) (names []string) {
	for _, d := range found {
		names = append(names, d.Name)
	}
	return names
}

// TestTheOrderOfNodesIsIrrelevant: the list of the API server has any order.
func TestTheOrderOfNodesIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, others := drawnPool(t)
		want := Compare(node, others, ofPool)
		if diff := cmp.Diff(want, Compare(node, rapid.Permutation(others).Draw(t, "order"), ofPool)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestACopyDiffersInNothing: a node with the faults of a peer has no difference.
func TestACopyDiffersInNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, others := drawnPool(t)
		twin := node
		twin.Node = node.Node.DeepCopy()
		twin.Node.Name, twin.Node.Status.Addresses = "twin", nil
		if c := Compare(node, append(others, twin), ofPool); len(c.Differences) > 0 {
			t.Fatalf("%+v", c.Differences)
		}
	})
}

// TestAnotherPeerAddsNoDifference except for what that peer alone has: more peers can only disagree more.
func TestAnotherPeerAddsNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, others := drawnPool(t)
		if len(others) < 3 {
			return
		}
		fewer := namesOf(Compare(node, others[:len(others)-1], ofPool).Differences)
		for _, name := range namesOf(Compare(node, others, ofPool).Differences) {
			if !slices.Contains(fewer, name) && !strings.HasPrefix(name, "label/") && !strings.HasPrefix(name, "taint/") {
				last := Compare(node, []Peer{others[len(others)-1], others[len(others)-1]}, ofPool)
				if !slices.Contains(namesOf(last.Differences), name) {
					t.Fatalf("%s, and before %v", name, fewer)
				}
			}
		}
	})
}

// TestAnIgnoredDifferenceIsGone, and each other one stays.
func TestAnIgnoredDifferenceIsGone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, others := drawnPool(t)
		all := Compare(node, others, ofPool)
		if len(all.Differences) == 0 {
			return
		}
		ignored := rapid.SampledFrom(namesOf(all.Differences)).Draw(t, "ignored")
		except := ofPool
		except.Ignored = []string{ignored}
		want := slices.DeleteFunc(namesOf(all.Differences), func(name string) bool { return name == ignored })
		if have := namesOf(Compare(node, others, except).Differences); !slices.Equal(have, want) {
			t.Fatalf("%v, want %v", have, want)
		}
		except.Ignored = []string{"*"}
		if c := Compare(node, others, except); len(c.Differences)+len(c.Disagreements) > 0 {
			t.Fatalf("%+v", c)
		}
	})
}

// TestWrongComparisons: for each wrong comparison, some case of the table has another result.
func TestWrongComparisons(t *testing.T) {
	all := Exceptions{Pool: []string{"pool"}, Own: []string{"kt26ee6b"}, Ignored: []string{"label/team", "daemonset/debug/*"}, Server: "v1.37.1"}
	for name, wrong := range map[string]func(node Peer, others []Peer) Comparison{
		"asks one node": func(n Peer, o []Peer) Comparison { return Compare(n, []Peer{o[0], o[0]}, all) },
		"asks the last": func(n Peer, o []Peer) Comparison { return Compare(n, []Peer{o[2], o[2]}, all) },
		"knows no API server": func(n Peer, o []Peer) Comparison {
			return Compare(n, o, Exceptions{Pool: all.Pool, Own: all.Own, Ignored: all.Ignored})
		},
		"knows no pool": func(n Peer, o []Peer) Comparison {
			return Compare(n, o, Exceptions{Own: all.Own, Ignored: all.Ignored, Server: all.Server})
		},
		"knows no own group": func(n Peer, o []Peer) Comparison {
			return Compare(n, o, Exceptions{Pool: all.Pool, Ignored: all.Ignored, Server: all.Server})
		},
		"ignores nothing": func(n Peer, o []Peer) Comparison {
			return Compare(n, o, Exceptions{Pool: all.Pool, Own: all.Own, Server: all.Server})
		},
		"reads no clock": func(n Peer, o []Peer) Comparison {
			n.Offset = nil
			return Compare(n, o, all)
		},
		"trusts no other clock": func(n Peer, o []Peer) Comparison {
			o = slices.Clone(o)
			for i := range o {
				o[i].Offset = nil
			}
			return Compare(n, o, all)
		},
		"reads no drivers": func(n Peer, o []Peer) Comparison {
			n.Drivers = o[0].Drivers
			return Compare(n, o, all)
		},
		"compares itself": func(n Peer, o []Peer) Comparison { return Compare(n, append(slices.Clone(o), n), all) },
	} {
		caught := false
		for _, test := range differences {
			if caught {
				break
			}
			node, others := changed(3, test.change)
			var have []string
			for _, d := range wrong(node, others).Differences {
				have = append(have, d.Message)
			}
			slices.Sort(have)
			caught = !slices.Equal(have, test.want)
		}
		if !caught {
			t.Errorf("no case catches a comparison that %s", name)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string][]int{
		"v1.37.1":               {1, 37, 1},
		"1.29.0":                {1, 29, 0},
		"v1.30.4-eks-a737599":   {1, 30, 4},
		"v1.31.0-alpha.3+12abc": {1, 31, 0},
		"v1.28.9+k3s1":          {1, 28, 9},
		"v1.28":                 nil,
		"v1.x.1":                nil,
		"dev":                   nil,
		"":                      nil,
	} {
		if v, known := versionOf(text); !slices.Equal(v, want) || known != (want != nil) {
			t.Errorf("%s: %v, %t", text, v, known)
		}
	}
}

// TestExpressionsFollowTheComparison in the order of the settings.
func TestExpressionsFollowTheComparison(t *testing.T) {
	f := good()
	f.Expectations = []Expectation{{Name: "Second", Evaluated: true, Met: true}, {Name: "First", Evaluated: true, Met: true}}
	v := Judge(f)
	var names []CheckName
	for _, c := range v.Checks {
		names = append(names, c.Name)
	}
	at := slices.Index(names, Differences)
	want := []CheckName{Differences, "Second", "First", Disk}
	if v.Result != Passed || at < 0 || !slices.Equal(names[at:at+len(want)], want) {
		t.Errorf("%s: %v", v.Result, names)
	}
}
