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
)

// poolNode returns a node of a pool: the node and its peers differ in the properties of a single node only.
func poolNode(i int) Peer {
	offset := time.Duration(i) * time.Second
	n := &corev1.Node{}
	n.Name = fmt.Sprint("w-", i)
	n.Labels = map[string]string{
		"kubernetes.io/hostname": n.Name, "topology.kubernetes.io/zone": fmt.Sprint("zone-", i),
		"topology.disk.csi.azure.com/zone": fmt.Sprint("zone-", i), "machine": n.Name,
		"node.kubernetes.io/instance-type": "m6i.large", "agentpool": "pool", "kamino.dev/version": "2026.11.22",
		"feature.example.com/kernel": "5.15.0-101", "team": "payments", "machine-class": "general",
		"karpenter.k8s.aws/ec2nodeclass": map[bool]string{true: "general-trial", false: "general"}[i == 9],
	}
	n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	n.Status = corev1.NodeStatus{
		Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("1930m"), "memory": resource.MustParse("7Gi"), "pods": resource.MustParse("110"),
			"nvidia.com/gpu": resource.MustParse("1"),
			"hugepages-2Mi":  resource.MustParse("0"), "attachable-volumes-azure-disk": resource.MustParse("8"),
		},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: "KernelDeadlock", Status: corev1.ConditionFalse}},
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("10.0.0.", i)}, {Type: corev1.NodeHostName, Address: n.Name}},
		NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.36.2"},
		Images:     make([]corev1.ContainerImage, 7+i%2),
	}
	return Peer{Node: n, Offset: &offset, Drivers: []string{"disk.csi.azure.com"}, DaemonSets: []string{"kube-system/cni", "kube-system/proxy"}}
}

// likePool compares one changed node with others. The node is a node of a trial, with another version.
func likePool(others int, change func(node *Peer, others []Peer)) Comparison {
	node, peers := changed(others, change)
	return Compare(node, peers, Exceptions{Pool: []string{"pool"}, Own: []string{"kt26ee6b"},
		Ignored: []string{"label/team", "daemonset/debug/*"}, Server: "v1.37.1"})
}

// changed returns the trial node and its peers.
func changed(others int, change func(node *Peer, others []Peer)) (Peer, []Peer) {
	node := poolNode(9)
	node.Node.Labels["agentpool"], node.Node.Labels["kamino.dev/version"] = "kt26ee6b", "2026.11.26"
	var peers []Peer
	for i := range others {
		peers = append(peers, poolNode(i))
	}
	if change != nil {
		change(&node, peers)
	}
	return node, peers
}

func amounts(of Peer, name corev1.ResourceName, amount string) {
	of.Node.Status.Allocatable[name] = resource.MustParse(amount)
}

// differences lists one change of the trial node, or of all nodes, each with the messages.
var differences = map[string]struct {
	change func(node *Peer, others []Peer)
	want   []string
}{
	"nothing": {nil, nil},
	"fewer pods, less memory": {func(n *Peer, _ []Peer) { amounts(*n, "pods", "8"); amounts(*n, "memory", "6Gi") },
		[]string{"allocatable memory is 6Gi, and at least 7Gi on other nodes", "allocatable pods is 8, and at least 110 on other nodes"}},
	"a little less memory": {func(n *Peer, _ []Peer) { amounts(*n, "memory", "6900Mi") }, nil},
	"more memory":          {func(n *Peer, _ []Peer) { amounts(*n, "memory", "70Gi") }, nil},
	"a lost device": {func(n *Peer, _ []Peer) { delete(n.Node.Status.Allocatable, "nvidia.com/gpu") },
		[]string{"allocatable nvidia.com/gpu is 0, and at least 1 on other nodes"}},
	"a resource of older kubelets": {func(n *Peer, _ []Peer) { delete(n.Node.Status.Allocatable, "attachable-volumes-azure-disk") }, nil},
	"the least of the others counts": {func(n *Peer, o []Peer) {
		amounts(*n, "pods", "50")
		for i := range o {
			amounts(o[i], "pods", fmt.Sprint(50+i))
		}
	}, nil},
	"a taint": {func(n *Peer, _ []Peer) {
		n.Node.Spec.Taints = append(n.Node.Spec.Taints, corev1.Taint{Key: "broken", Effect: corev1.TaintEffectNoExecute})
	}, []string{"taint broken:NoExecute is on no other node"}},
	"a missing taint": {func(n *Peer, _ []Peer) { n.Node.Spec.Taints = nil }, []string{"taint dedicated=gpu:NoSchedule is missing"}},
	"a taint of another value": {func(n *Peer, _ []Peer) { n.Node.Spec.Taints[0].Value = "db" },
		[]string{"taint dedicated=db:NoSchedule is on no other node", "taint dedicated=gpu:NoSchedule is missing"}},
	"the cordon of the trial": {func(n *Peer, _ []Peer) {
		n.Node.Spec.Taints = append(n.Node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}, nil},
	"a missing label": {func(n *Peer, _ []Peer) { delete(n.Node.Labels, "node.kubernetes.io/instance-type") },
		[]string{`label node.kubernetes.io/instance-type is missing, and is "m6i.large" on other nodes`}},
	"another label": {func(n *Peer, _ []Peer) { n.Node.Labels["machine-class"] = "batch" },
		[]string{`label machine-class is "batch", and is "general" on other nodes`}},
	"another kernel":              {func(n *Peer, _ []Peer) { n.Node.Labels["feature.example.com/kernel"] = "6.1.0" }, nil},
	"no pool, and none is needed": {func(n *Peer, _ []Peer) { delete(n.Node.Labels, "agentpool") }, nil},
	"another pool": {func(n *Peer, _ []Peer) { n.Node.Labels["agentpool"] = "pool2" },
		[]string{`label agentpool is "pool2", and is "pool" on other nodes`}},
	"an ignored label": {func(n *Peer, _ []Peer) { delete(n.Node.Labels, "team") }, nil},
	"labels that the others do not share": {func(n *Peer, o []Peer) {
		for i := range o {
			o[i].Node.Labels["team"], o[i].Node.Labels["machine-class"] = fmt.Sprint(i), fmt.Sprint("size-", i)
		}
	}, nil},
	"a condition": {func(n *Peer, _ []Peer) {
		n.Node.Status.Conditions[1] = corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionTrue, Reason: "DockerHung", Message: "task blocked"}
	}, []string{"condition KernelDeadlock is True on no other node (DockerHung: task blocked)"}},
	"a condition without words": {func(n *Peer, _ []Peer) { n.Node.Status.Conditions[1].Status = corev1.ConditionTrue },
		[]string{"condition KernelDeadlock is True on no other node"}},
	"a new agent that is healthy": {func(n *Peer, _ []Peer) {
		n.Node.Status.Conditions = append(n.Node.Status.Conditions, corev1.NodeCondition{Type: "StorageReady", Status: corev1.ConditionTrue})
	}, nil},
	"a condition of all nodes": {func(n *Peer, o []Peer) {
		for _, p := range append(o, *n) {
			p.Node.Status.Conditions[1].Status = corev1.ConditionTrue
		}
	}, nil},
	"an older kubelet": {func(n *Peer, _ []Peer) { n.Node.Status.NodeInfo.KubeletVersion = "v1.36.1" },
		[]string{"kubelet v1.36.1 is older than the kubelets of other nodes"}},
	"a newer kubelet": {func(n *Peer, _ []Peer) { n.Node.Status.NodeInfo.KubeletVersion = "v1.37.0-eks-1" }, nil},
	"a kubelet newer than the API server": {func(n *Peer, _ []Peer) { n.Node.Status.NodeInfo.KubeletVersion = "v1.38.0" },
		[]string{"kubelet v1.38.0 does not fit API server v1.37.1"}},
	"a kubelet far too old": {func(n *Peer, _ []Peer) { n.Node.Status.NodeInfo.KubeletVersion = "v1.29.0" },
		[]string{"kubelet v1.29.0 is older than the kubelets of other nodes", "kubelet v1.29.0 does not fit API server v1.37.1"}},
	"kubelets that are all too old": {func(n *Peer, o []Peer) {
		for _, p := range append(o, *n) {
			p.Node.Status.NodeInfo.KubeletVersion = "v1.29.0"
		}
	}, nil},
	"a kubelet of no version": {func(n *Peer, _ []Peer) { n.Node.Status.NodeInfo.KubeletVersion = "dev" }, nil},
	"no CSI driver":           {func(n *Peer, _ []Peer) { n.Drivers = nil }, []string{"CSI driver disk.csi.azure.com is not registered"}},
	"no pod of a DaemonSet":   {func(n *Peer, _ []Peer) { n.DaemonSets = n.DaemonSets[1:] }, []string{"DaemonSet kube-system/cni has no pod"}},
	"no pod of an ignored DaemonSet": {func(n *Peer, o []Peer) {
		for i := range o {
			o[i].DaemonSets = append(o[i].DaemonSets, "debug/tool")
		}
	}, nil},
	"a lost container store": {func(n *Peer, _ []Peer) { n.Node.Status.Images = n.Node.Status.Images[:3] },
		[]string{"3 container images are on the disk, and at least 7 on other nodes"}},
	"half of the images": {func(n *Peer, _ []Peer) { n.Node.Status.Images = n.Node.Status.Images[:4] }, nil},
	"an address of one node": {func(n *Peer, o []Peer) { n.Node.Status.Addresses = o[1].Node.Status.Addresses },
		[]string{"address 10.0.0.1 is the address of node w-1"}},
	"a clock a day ahead": {func(n *Peer, _ []Peer) { n.Offset = offset(24 * time.Hour) },
		[]string{"the clock is 24h0m0s ahead of the API server's clock"}},
	"a clock a minute behind": {func(n *Peer, _ []Peer) { n.Offset = offset(-time.Minute) },
		[]string{"the clock is 1m0s behind the API server's clock"}},
	"a clock of which nothing is known": {func(n *Peer, _ []Peer) { n.Offset = nil }, nil},
	"the clock of the API server": {func(n *Peer, o []Peer) {
		n.Offset = offset(time.Hour)
		for i := range o {
			o[i].Offset = offset(time.Hour)
		}
	}, nil},
}

func offset(d time.Duration) *time.Duration { return &d }

func TestDifferences(t *testing.T) {
	for name, test := range differences {
		t.Run(name, func(t *testing.T) {
			c := likePool(3, test.change)
			var have []string
			for _, d := range c.Differences {
				have = append(have, d.Message)
			}
			slices.Sort(have)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, have); diff != "" || len(c.Disagreements) > 0 {
				t.Errorf("-want +got:\n%s%v", diff, c.Disagreements)
			}
			if !slices.Equal(c.Others, []string{"w-0", "w-1", "w-2"}) {
				t.Errorf("compared with %v", c.Others)
			}
		})
	}
}

// TestFewNodesAreNotCompared: two other nodes are enough.
func TestFewNodesAreNotCompared(t *testing.T) {
	for others, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 1} {
		if c := likePool(others, func(n *Peer, _ []Peer) { amounts(*n, "pods", "8") }); len(c.Differences) != want || len(c.Others) != others {
			t.Errorf("%d others: %+v", others, c)
		}
	}
}

// TestClockNeedsNoOtherNode: the API server's clock is the measure. Another node with the same clock keeps the version.
func TestClockNeedsNoOtherNode(t *testing.T) {
	behind := func(p *Peer) { p.Offset = offset(-time.Minute) }
	for name, test := range map[string]struct {
		others int
		change func(*Peer, []Peer)
		want   int
	}{
		"alone":          {0, func(n *Peer, _ []Peer) { behind(n) }, 1},
		"one other node": {1, func(n *Peer, _ []Peer) { behind(n) }, 1},
		"both nodes":     {1, func(n *Peer, o []Peer) { behind(n); behind(&o[0]) }, 0},
		"right":          {0, func(*Peer, []Peer) {}, 0},
	} {
		if c := likePool(test.others, test.change); len(c.Differences) != test.want || test.want > 0 && c.Differences[0].Name != "clock" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestImagesOfTheDonor: the donor's number of images replaces the number of the other nodes, and needs no other node.
func TestImagesOfTheDonor(t *testing.T) {
	for name, test := range map[string]struct {
		here, donor, others int
		ignored             string
		want                string
	}{
		"all":                {8, 8, 0, "", ""},
		"three quarters":     {6, 8, 0, "", ""},
		"after pulls":        {2, 4, 3, "", "2 container images are on the disk, and 4 were on the donor's"},
		"fewer, alone":       {3, 8, 0, "", "3 container images are on the disk, and 8 were on the donor's"},
		"fewer, one other":   {3, 8, 1, "", "3 container images are on the disk, and 8 were on the donor's"},
		"fewer, three":       {0, 2, 3, "", "0 container images are on the disk, and 2 were on the donor's"},
		"others have more":   {3, 4, 3, "", ""},
		"donor is unknown":   {3, 0, 3, "", "3 container images are on the disk, and at least 7 on other nodes"},
		"nothing is known":   {0, 0, 1, "", ""},
		"fewer, and ignored": {3, 8, 0, "images", ""},
	} {
		node, peers := changed(test.others, func(n *Peer, _ []Peer) { n.Node.Status.Images = n.Node.Status.Images[:test.here] })
		c := Compare(node, peers, Exceptions{Pool: []string{"pool"}, Own: []string{"kt26ee6b"}, Ignored: []string{"label/team", test.ignored},
			DonorImages: test.donor, Server: "v1.37.1"})
		got := ""
		for _, d := range c.Differences {
			got += d.Message
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestALiarIsNamed: another node that shares a fault keeps the version from failing, and the result names the node.
func TestALiarIsNamed(t *testing.T) {
	for name, test := range differences {
		if len(test.want) == 0 || strings.HasPrefix(name, "an address") {
			continue
		}
		for others, named := range map[int]bool{2: true, 5: true} {
			c := likePool(others, func(n *Peer, o []Peer) {
				test.change(n, o)
				liar := &o[1]
				fault := poolNode(1)
				fault.Node.Labels = n.Node.DeepCopy().Labels
				fault.Node.Spec, fault.Node.Status = n.Node.DeepCopy().Spec, n.Node.DeepCopy().Status
				fault.Node.Status.Addresses = o[1].Node.Status.Addresses
				fault.Drivers, fault.DaemonSets, fault.Offset = n.Drivers, n.DaemonSets, n.Offset
				*liar = fault
			})
			if others == 2 && strings.Contains(name, "label") || name == "another pool" {
				continue // two nodes with different labels disagree
			}
			if len(c.Differences) > 0 || named != (len(c.Disagreements) == len(test.want)) {
				t.Errorf("%s, %d others: %+v", name, others, c)
			}
			for _, d := range c.Disagreements {
				if !strings.HasSuffix(d.Message, ", and on w-1 also") {
					t.Errorf("%s: %s", name, d.Message)
				}
			}
		}
	}
}

// TestCommonPropertyIsNoDifference: a property of more than half of the other nodes is normal.
func TestCommonPropertyIsNoDifference(t *testing.T) {
	c := likePool(5, func(n *Peer, o []Peer) {
		amounts(*n, "pods", "8")
		for i := range 3 {
			amounts(o[i], "pods", "8")
		}
	})
	if len(c.Differences) > 0 || len(c.Disagreements) > 0 {
		t.Errorf("%+v", c)
	}
}

// TestALikeness judges differences by their age.
func TestALikeness(t *testing.T) {
	taint, pods := Difference{"taint/broken", "taint broken is on no other node"}, Difference{"allocatable/pods", "allocatable pods is 8"}
	many := make([]LastingDifference, 7)
	for i := range many {
		many[i] = LastingDifference{Difference{fmt.Sprint("label/", i), fmt.Sprint("label ", i)}, ago(15)}
	}
	for name, test := range map[string]struct {
		likeness *PeerComparison
		result   Result
		says     string
	}{
		"not yet":   {nil, Pending, "Differences: is compared"},
		"no others": {&PeerComparison{Skipped: "the pool has one other node"}, Passed, "every check has passed"},
		"donor's": {&PeerComparison{Skipped: "one other node", Differences: []LastingDifference{{Difference{"images", "0 container images"}, ago(6)}}},
			Failed, "Differences: node trial-0 differs from its donor, or from the API server: 0 container images"},
		"alike": {&PeerComparison{Others: 3}, Passed, "every check has passed"},
		"a moment": {&PeerComparison{Others: 3, Differences: []LastingDifference{{taint, ago(5)}}}, Pending,
			"Differences: node trial-0 still differs from 3 other nodes of the pool: taint broken is on no other node"},
		"lasting": {&PeerComparison{Others: 3, Differences: []LastingDifference{{taint, ago(6)}}}, Failed,
			"Differences: node trial-0 differs from 3 other nodes of the pool: taint broken is on no other node"},
		"before Ready": {&PeerComparison{Others: 3, Differences: []LastingDifference{{taint, ago(90)}}}, Failed,
			"Differences: node trial-0 differs from 3 other nodes of the pool: taint broken is on no other node"},
		"one of two": {&PeerComparison{Others: 3, Differences: []LastingDifference{{taint, ago(1)}, {pods, ago(6)}}}, Failed,
			"Differences: node trial-0 differs from 3 other nodes of the pool: allocatable pods is 8"},
		"many": {&PeerComparison{Others: 2, Differences: many, Notes: []string{"node x is forged"}}, Failed,
			"Differences: node trial-0 differs from 2 other nodes of the pool: label 0; label 1; label 2; label 3; label 4; and 2 more. " +
				"Not compared: node x is forged"},
	} {
		f := good()
		f.Comparison = test.likeness
		if v := Judge(f); v.Result != test.result || v.Message != test.says {
			t.Errorf("%s: %s: %s\nwant %s: %s", name, v.Result, v.Message, test.result, test.says)
		}
	}
	f := young() // Ready for three minutes: an older difference counts since then
	f.Comparison = &PeerComparison{Others: 3, Differences: []LastingDifference{{taint, ago(90)}}}
	if v := Judge(f); v.Result != Pending {
		t.Errorf("%s: %s", v.Result, v.Message)
	}
	f = good()
	f.Comparison = &PeerComparison{Others: 3, Notes: []string{"pods: w-1 also"}}
	if v := Judge(f); !slices.ContainsFunc(v.Checks, func(c Check) bool {
		return c.Message == "node trial-0 is like 3 other nodes of the pool. Not compared: pods: w-1 also"
	}) {
		t.Errorf("%v", v.Checks)
	}
}

// TestALongMessage names five messages, and the number of the others.
func TestALongMessage(t *testing.T) {
	for n, want := range map[int]string{
		0: "",
		1: "0",
		5: "0; 1; 2; 3; 4",
		6: "0; 1; 2; 3; 4; and 1 more",
		9: "0; 1; 2; 3; 4; and 4 more",
	} {
		var messages []string
		for i := range n {
			messages = append(messages, fmt.Sprint(i))
		}
		if got := some(messages); got != want || len(messages) != n {
			t.Errorf("%d: %q", n, got)
		}
	}
}

// TestIgnoredNames: a * matches any end, and nothing else.
func TestIgnoredNames(t *testing.T) {
	for ignored, want := range map[string]bool{
		"label/team": true, "label/*": true, "label/te*": true, "*": true,
		"label/tea": false, "label/teams": false, "taint/*": false, "*/team": false, "": false,
	} {
		if matches(ignored, "label/team") != want {
			t.Errorf("%q: want %t", ignored, want)
		}
	}
}
