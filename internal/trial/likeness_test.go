package trial

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func label(of Peer, key, value string) { of.Node.Labels[key] = value }

// each changes all nodes.
func each(nodes []Peer, change func(Peer)) {
	for _, n := range nodes {
		change(n)
	}
}

func smaller(p Peer) {
	label(p, "node.kubernetes.io/instance-type", "m6i.medium")
	amounts(p, "cpu", "930m")
	amounts(p, "memory", "3Gi")
}

func condition(p Peer, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	p.Node.Status.Conditions = append(p.Node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status})
}

// goodVariants are differences that are no fault of an image. The first name is the value of the other nodes.
var goodVariants = map[string]func(n *Peer, others []Peer){
	"another type, equal size":    func(n *Peer, _ []Peer) { label(*n, "node.kubernetes.io/instance-type", "m6a.large") },
	"another type, half the size": func(n *Peer, _ []Peer) { smaller(*n) },
	"two of five have its type":   func(n *Peer, o []Peer) { smaller(*n); smaller(o[0]); smaller(o[3]) },
	"types that only AWS knows":   func(n *Peer, o []Peer) { typesOfCloud(n, o); amounts(*n, "cpu", "930m") },
	"CPU without AVX-512": func(_ *Peer, o []Peer) {
		each(o, func(p Peer) { label(p, "feature.node.kubernetes.io/cpu-cpuid.AVX512F", "true") })
	},
	"another GPU": func(n *Peer, o []Peer) {
		label(*n, "nvidia.com/gpu.product", "L4")
		each(o, func(p Peer) { label(p, "nvidia.com/gpu.product", "A10G") })
	},
	"ami-0aaa to ami-0bbb":     values("example.com/from", "ami-0aaa", "ami-0bbb"),
	"dates of an Ubuntu image": values("example.com/os", "ubuntu-22.04-20261001", "ubuntu-22.04-20261128"),
	"AKS' node image": values("kubernetes.azure.com/node-image-version", "AKSUbuntu-2204gen2containerd-202511.01.0",
		"AKSUbuntu-2404gen2containerd-202511.28.0"),
	"the name of the own image": func(n *Peer, o []Peer) {
		values("built", "stock", "kamino-pool-blue")(n, o)
		n.Instance.Image = "eu-west-1/kamino-pool-blue"
	},
	"NetworkPolicyEnforced": func(n *Peer, o []Peer) {
		condition(*n, "NetworkPolicyEnforced", "True")
		each(o, func(p Peer) { condition(p, "NetworkPolicyEnforced", "False") })
	},
	"a condition of a new agent":   func(n *Peer, _ []Peer) { condition(*n, "NetworkPolicyEnforced", "True") },
	"a new agent is not ready yet": func(n *Peer, _ []Peer) { condition(*n, "StorageReady", "False") },
	"a taint of today's recipe": func(n *Peer, o []Peer) {
		recipes(n, o)
		n.Node.Spec.Taints = append(n.Node.Spec.Taints, corev1.Taint{Key: "batch", Value: "yes", Effect: corev1.TaintEffectNoSchedule})
	},
	"a taint that today's recipe lacks": func(n *Peer, o []Peer) { recipes(n, o); n.Node.Spec.Taints = nil },
	"a label of today's recipe":         func(n *Peer, o []Peer) { recipes(n, o); label(*n, "machine-class", "batch") },
	"kubelet flags of today's recipe":   func(n *Peer, o []Peer) { recipes(n, o); amounts(*n, "pods", "29") },
	"a smaller machine today": func(n *Peer, o []Peer) {
		recipes(n, o)
		smaller(*n)
	},
	"a taint in customData": func(n *Peer, _ []Peer) {
		n.Node.Spec.Taints = append(n.Node.Spec.Taints, corev1.Taint{Key: "ordered", Value: "yes", Effect: corev1.TaintEffectNoSchedule})
	},
	"a label in customData": func(n *Peer, _ []Peer) { label(*n, "node.kubernetes.io/ordered", "yes") },
	"one label more":        func(n *Peer, _ []Peer) { label(*n, "example.com/new", "yes") },
	"newer kernel, runtime, system and handler": func(n *Peer, o []Peer) {
		systems(n, o, "containerd://2.1.0", "Ubuntu 24.04.1 LTS")
		n.Node.Status.RuntimeHandlers = handlers("", "runc", "gvisor")
	},
	"a patch of the runtime and system less": func(n *Peer, o []Peer) { systems(n, o, "containerd://1.7.24", "Ubuntu 22.04.4 LTS") },
	"another zone":                           func(n *Peer, o []Peer) { zones(n, o); label(*n, "topology.kubernetes.io/zone", "zone-9") },
	"zones that the cloud names otherwise": func(n *Peer, o []Peer) {
		zones(n, o)
		each(append(o, *n), func(p Peer) { label(p, "topology.kubernetes.io/zone", "other") })
	},
	"tainted after it was Ready": func(n *Peer, _ []Peer) { taint(n, "ToBeDeletedByClusterAutoscaler") },
	"a static pod of all nodes": func(n *Peer, o []Peer) {
		n.StaticPods = []string{"kube-system/proxy"}
		for i := range o {
			o[i].StaticPods = n.StaticPods
		}
	},
}

const excluded = "node.kubernetes.io/exclude-from-external-load-balancers"

func values(key, others, here string) func(*Peer, []Peer) {
	return func(n *Peer, o []Peer) {
		label(*n, key, here)
		each(o, func(p Peer) { label(p, key, others) })
	}
}

func recipes(n *Peer, o []Peer) {
	n.Instance.Recipe = "today"
	for i := range o {
		o[i].Instance.Recipe = "before"
	}
}

func typesOfCloud(n *Peer, o []Peer) {
	for _, p := range append(slices.Clone(o), *n) {
		delete(p.Node.Labels, "node.kubernetes.io/instance-type")
	}
	n.Instance.Type = "m6i.medium"
	for i := range o {
		o[i].Instance.Type = "m6i.large"
	}
}

func zones(n *Peer, o []Peer) {
	n.Instance.Zone = "zone-9"
	for i := range o {
		o[i].Instance = cloud.Instance{Zone: fmt.Sprint("zone-", i), Type: "m6i.large"}
	}
}

func systems(n *Peer, o []Peer, runtime, system string) {
	each(o, func(p Peer) {
		p.Node.Status.NodeInfo.ContainerRuntimeVersion, p.Node.Status.NodeInfo.OSImage = "containerd://1.7.25", "Ubuntu 22.04.5 LTS"
		p.Node.Status.RuntimeHandlers = handlers("", "runc")
	})
	n.Node.Status.NodeInfo.ContainerRuntimeVersion, n.Node.Status.NodeInfo.OSImage = runtime, system
	n.Node.Status.RuntimeHandlers = handlers("", "runc")
}

func handlers(names ...string) (all []corev1.NodeRuntimeHandler) {
	yes := true
	for _, name := range names {
		all = append(all, corev1.NodeRuntimeHandler{Name: name, Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: &yes}})
	}
	return all
}

func taint(n *Peer, key string) {
	n.Node.Spec.Taints = append(n.Node.Spec.Taints, corev1.Taint{Key: key, Value: "1764500000", Effect: corev1.TaintEffectNoSchedule})
}

func compareLikeness(change func(n *Peer, others []Peer)) Comparison {
	node, others := changed(5, change)
	for i := range others {
		if others[i].StaticPods == nil {
			others[i].StaticPods = []string{}
		}
	}
	return Compare(node, others, Exceptions{Pool: []string{"pool"}, Own: []string{"kt26ee6b"}, Server: "v1.37.1",
		Selectors: map[string]string{"example.com/balanced": "Service shop/web"},
		UserData:  "--register-with-taints=ordered=yes:NoSchedule --node-labels=node.kubernetes.io/ordered=yes"})
}

// TestGoodVariants: none is a difference.
func TestGoodVariants(t *testing.T) {
	for name, change := range goodVariants {
		if c := compareLikeness(change); len(c.Differences) > 0 {
			t.Errorf("%s: %+v", name, c.Differences)
		}
	}
}

// TestWhatANodeSaysMore are faults that only show in what the node says more than its peers, or than the cloud.
func TestWhatANodeSaysMore(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *Peer, others []Peer)
		want   string
	}{
		"the donor's zone in --node-labels": {func(n *Peer, o []Peer) { zones(n, o); label(*n, "topology.kubernetes.io/zone", "zone-1") },
			`label topology.kubernetes.io/zone is "zone-1", and the cloud says "zone-9"`},
		"no zone": {func(n *Peer, o []Peer) { zones(n, o); delete(n.Node.Labels, "topology.kubernetes.io/zone") },
			`label topology.kubernetes.io/zone is missing, and the cloud says "zone-9"`},
		"the donor's type": {func(n *Peer, o []Peer) { zones(n, o); n.Instance.Type = "m6i.large"; smaller(*n) },
			`allocatable cpu is 930m, and at least 1930m on other nodes; allocatable memory is 3Gi, and at least 7Gi on other nodes; ` +
				`label node.kubernetes.io/instance-type is "m6i.medium", and the cloud says "m6i.large"`},
		"out of all load balancers": {func(n *Peer, _ []Peer) { label(*n, excluded, "") },
			"label node.kubernetes.io/exclude-from-external-load-balancers= is on no other node"},
		"a label that the user data has only as a part of another": {func(n *Peer, _ []Peer) { label(*n, "node.kubernetes.io/ordered", "y") },
			"label node.kubernetes.io/ordered=y is on no other node"},
		"a label of a Service": {func(n *Peer, _ []Peer) { label(*n, "example.com/balanced", "no") },
			"label example.com/balanced=no is on no other node, and Service shop/web selects nodes by this label"},
		"the autoscaler's taint from the disk": {func(n *Peer, _ []Peer) {
			taint(n, "ToBeDeletedByClusterAutoscaler")
			n.FirstTaints = []string{"ToBeDeletedByClusterAutoscaler=1764500000:NoSchedule"}
		}, "taint ToBeDeletedByClusterAutoscaler=1764500000:NoSchedule is on no other node"},
		"a static pod of the donor": {func(n *Peer, _ []Peer) { n.StaticPods = []string{"kube-system/kube-vip"} },
			"static pod kube-system/kube-vip is on no other node"},
		"an older runtime": {func(n *Peer, o []Peer) { systems(n, o, "containerd://1.4.13", "Ubuntu 22.04.5 LTS") },
			"containerd://1.4.13 is older than containerd://1.7.25 on other nodes"},
		"an older system": {func(n *Peer, o []Peer) { systems(n, o, "containerd://1.7.25", "Ubuntu 20.04.6 LTS") },
			"Ubuntu 20.04.6 LTS is older than Ubuntu 22.04.5 LTS on other nodes"},
		"a lost runtime handler": {func(n *Peer, o []Peer) {
			systems(n, o, "containerd://1.7.25", "Ubuntu 22.04.5 LTS")
			each(o, func(p Peer) { p.Node.Status.RuntimeHandlers = handlers("", "runc", "nvidia") })
		}, "the container runtime does not offer nvidia, a handler or feature of other nodes; " +
			"the container runtime does not offer nvidia/userNamespaces, a handler or feature of other nodes"},
		"a lost feature": {func(n *Peer, o []Peer) {
			systems(n, o, "containerd://1.7.25", "Ubuntu 22.04.5 LTS")
			n.Node.Status.RuntimeHandlers[1].Features = nil
		}, "the container runtime does not offer runc/userNamespaces, a handler or feature of other nodes"},
		"storage that only here is not ready": {func(n *Peer, o []Peer) {
			condition(*n, "StorageReady", "False")
			each(o, func(p Peer) { condition(p, "StorageReady", "True") })
		},
			"condition StorageReady is False, and True on other nodes"},
		"a taint of the disk after a change of the recipe's size": {func(n *Peer, o []Peer) {
			recipes(n, o)
			o[0].Instance.Recipe, o[1].Instance.Recipe = "today", "today"
			n.Node.Spec.Taints = append(n.Node.Spec.Taints, corev1.Taint{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule})
		}, "taint dedicated=batch:NoSchedule is on no other node"},
	} {
		c := compareLikeness(test.change)
		var have []string
		for _, d := range c.Differences {
			have = append(have, d.Message)
		}
		if text := strings.Join(have, "; "); text != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, text, test.want)
		}
	}
}

// TestTheTrialsOwnLabel is no difference.
func TestTheTrialsOwnLabel(t *testing.T) {
	node, others := changed(3, func(n *Peer, _ []Peer) { label(*n, excluded, "true") })
	for _, own := range [][]string{nil, {excluded}} {
		if c := Compare(node, others, Exceptions{Pool: []string{"pool"}, Own: []string{"kt26ee6b"}, OwnLabels: own}); len(c.Differences) != 1-len(own) {
			t.Errorf("own labels %v: %+v", own, c.Differences)
		}
	}
}

// TestANewRecipeIsNamed: what the recipe decides is not compared, and the result says so.
func TestANewRecipeIsNamed(t *testing.T) {
	c := compareLikeness(func(n *Peer, o []Peer) {
		recipes(n, o)
		n.Node.Spec.Taints = nil
		condition(*n, "KernelDeadlock", "True")
	})
	if len(c.Differences) != 1 || c.Differences[0].Name != "condition/KernelDeadlock" || len(c.Disagreements) != 1 ||
		!strings.Contains(c.Disagreements[0].Message, "5 of 5 other nodes were built before the pool's recipe changed") {
		t.Errorf("%+v", c)
	}
}

// TestAConditionOfUnknownMeaning is noted.
func TestAConditionOfUnknownMeaning(t *testing.T) {
	c := compareLikeness(func(n *Peer, _ []Peer) { condition(*n, "Blue", "True") })
	if len(c.Differences) > 0 || len(c.Disagreements) != 1 || c.Disagreements[0].Message != "condition Blue is True on no other node" {
		t.Errorf("%+v", c)
	}
}
