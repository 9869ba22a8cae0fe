package trial

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	// least is the smallest allocatable amount, in percent of the smallest amount of the other nodes.
	least = 95
	// drift is the difference of a node's clock from the API server's clock from which the clock is wrong.
	drift = time.Minute
	// minorSkew is how many minor versions a kubelet may be older than the API server. Source: Kubernetes' version skew policy.
	minorSkew = 3
	// minOthers is the smallest number of other nodes for a comparison.
	minOthers = 2
)

// Peer is a node as the API server shows the node. The caller has proven that a kubelet runs for the Node.
type Peer struct {
	Node *corev1.Node
	// Offset is the node's clock minus the API server's clock at a write of the kubelet's Lease; nil if unknown.
	Offset *time.Duration
	// Drivers are the node's CSI drivers, and DaemonSets the DaemonSets with a pod on the node, as namespace/name.
	Drivers, DaemonSets []string
	// StaticPods are the node's mirror pods, as namespace/name without the name of the node; nil if unknown.
	StaticPods []string
	// FirstTaints are the taints at the first look at the trial node.
	FirstTaints []string
	// Instance is the node's instance as the cloud shows it; zero if unknown.
	Instance cloud.Instance
}

// typeOf is the instance type that the node names, else the type that the cloud names; empty if unknown.
func (p Peer) typeOf() string {
	return strings.ToLower(cmp.Or(p.Node.Labels[corev1.LabelInstanceTypeStable], p.Node.Labels[corev1.LabelInstanceType], p.Instance.Type))
}

// Alike returns the other nodes that can be compared with a node: those of its instance type, or all if that is unknown. A node may lie
// about its type, so the cloud's word comes first.
func Alike(node Peer, others []Peer) []Peer {
	kind := strings.ToLower(cmp.Or(node.Instance.Type, node.typeOf()))
	return slices.DeleteFunc(slices.Clone(others), func(o Peer) bool {
		other := strings.ToLower(cmp.Or(o.Instance.Type, o.typeOf()))
		return kind != "" && other != "" && other != kind
	})
}

// Difference is a property of a node that differs from all other nodes of the pool.
type Difference struct {
	// Name is a name for settings.trial.ignoreDifferences, such as allocatable/memory.
	Name    string
	Message string
}

// Comparison is the result of Compare. The lists are sorted.
type Comparison struct {
	// Others are the names of the other nodes.
	Others      []string
	Differences []Difference
	// Disagreements are properties of the node that few other nodes share, so that nothing was compared. Each names those
	// nodes, because one of them may lie.
	Disagreements []Difference
}

// Exceptions are differences that Compare accepts.
type Exceptions struct {
	// Pool and Own are names of the pool, and of the node's own group. Labels with these names are no difference.
	Pool, Own []string
	// DonorImages is the number of container images that the donor's kubelet reported; 0 if unknown.
	DonorImages int
	// Ignored are the names of differences to ignore. A trailing * matches any end.
	Ignored []string
	// Server is the version of the API server, such as v1.37.1; empty if unknown.
	Server string
	// Selectors are the objects that select nodes by a label, by its key, such as DaemonSet kube-system/proxy.
	Selectors map[string]string
	// OwnLabels are labels that Kamino has set on the node.
	OwnLabels []string
	// UserData is what the recipe gives to the node at its first boot. A label or taint in it is no fault of the image.
	UserData string
}

// Compare compares a node with the Ready nodes of its pool that have other images and its instance type, where those agree. With fewer
// than two such nodes, Compare compares only with the donor's images, the API server's clock, and the cloud's knowledge of the instance.
func Compare(node Peer, others []Peer, except Exceptions) Comparison {
	c := comparison{node: node, others: others, except: except}
	c.instance()
	c.others = Alike(node, others)
	for _, o := range c.others {
		c.Others = append(c.Others, o.Node.Name)
	}
	slices.Sort(c.Others)
	if len(c.others) < minOthers {
		c.clock()
		c.donorImages()
		return c.Comparison
	}
	c.configured([]func(){c.allocatable, c.taints, c.labels})
	for _, compare := range []func(){c.conditions, c.kubelet, c.runtime, c.sets, c.images, c.address, c.clock} {
		compare()
	}
	for _, found := range [][]Difference{c.Differences, c.Disagreements} {
		slices.SortFunc(found, func(x, y Difference) int { return strings.Compare(x.Name, y.Name) })
	}
	return c.Comparison
}

// configured compares what the recipe also decides, with the nodes that were built from the node's recipe.
func (c *comparison) configured(compare []func()) {
	all := c.others
	c.others = slices.DeleteFunc(slices.Clone(all), func(o Peer) bool {
		return c.node.Instance.Recipe != "" && o.Instance.Recipe != "" && o.Instance.Recipe != c.node.Instance.Recipe
	})
	if len(c.others) >= minOthers {
		for _, one := range compare {
			one()
		}
	} else if !c.ignores("recipe") {
		c.Disagreements = append(c.Disagreements, Difference{"recipe", fmt.Sprintf("labels, taints and resources, because %d of %d other nodes "+
			"were built before the pool's recipe changed", len(all)-len(c.others), len(all))})
	}
	c.others = all
}

type comparison struct {
	Comparison
	node   Peer
	others []Peer
	except Exceptions
}

// add records a property of the node. shares reports whether another node has the same property.
func (c *comparison) add(name, message string, shares func(Peer) bool) {
	if c.ignores(name) {
		return
	}
	var sharing []string
	for _, o := range c.others {
		if shares(o) {
			sharing = append(sharing, o.Node.Name)
		}
	}
	slices.Sort(sharing)
	switch d := (Difference{name, message}); {
	case len(sharing) == 0:
		c.Differences = append(c.Differences, d)
	case 2*len(sharing) <= len(c.others):
		d.Message = fmt.Sprintf("%s, and on %s also", message, strings.Join(sharing, ", "))
		c.Disagreements = append(c.Disagreements, d)
	}
}

func (c *comparison) ignores(name string) bool {
	return slices.ContainsFunc(c.except.Ignored, func(i string) bool { return matches(i, name) })
}

func matches(ignored, name string) bool {
	if start, open := strings.CutSuffix(ignored, "*"); open {
		return strings.HasPrefix(name, start)
	}
	return ignored == name
}

// allocatable compares resources and devices. attachable-volumes-* are absent from newer kubelets.
func (c *comparison) allocatable() {
	resources := map[corev1.ResourceName]bool{}
	for _, o := range c.others {
		for name := range o.Node.Status.Allocatable {
			resources[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if strings.HasPrefix(string(name), "attachable-volumes-") {
			continue
		}
		here := c.node.Node.Status.Allocatable[name]
		smallest := c.others[0].Node.Status.Allocatable[name]
		for _, o := range c.others[1:] {
			if q := o.Node.Status.Allocatable[name]; q.Cmp(smallest) < 0 {
				smallest = q
			}
		}
		enough := func(o Peer) bool {
			q := o.Node.Status.Allocatable[name]
			return here.AsApproximateFloat64()*100 >= q.AsApproximateFloat64()*least
		}
		c.add("allocatable/"+string(name), fmt.Sprintf("allocatable %s is %s, and at least %s on other nodes", name, here.String(), smallest.String()), enough)
	}
}

func (c *comparison) kubelet() {
	text := c.node.Node.Status.NodeInfo.KubeletVersion
	here, known := versionOf(text)
	if !known {
		return
	}
	of := func(p Peer) []int {
		v, _ := versionOf(p.Node.Status.NodeInfo.KubeletVersion)
		return v
	}
	c.add("kubelet", fmt.Sprintf("kubelet %s is older than the kubelets of other nodes", text), func(o Peer) bool {
		return slices.Compare(here, of(o)) >= 0
	})
	server, known := versionOf(c.except.Server)
	if skewed := func(v []int) bool {
		return len(v) == 0 || v[0] != server[0] || v[1] > server[1] || v[1]+minorSkew < server[1]
	}; known && skewed(here) {
		c.add("kubelet", fmt.Sprintf("kubelet %s does not fit API server %s", text, c.except.Server), func(o Peer) bool { return skewed(of(o)) })
	}
}

// versionOf returns major, minor and patch.
func versionOf(text string) (v []int, known bool) {
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "v"), ".") {
		if end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			part = part[:end]
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		if v = append(v, n); len(v) == 3 {
			return v, true
		}
	}
	return nil, false
}

// sets compares CSI drivers, DaemonSets and static pods.
func (c *comparison) sets() {
	for _, set := range []struct {
		name, message string
		of            func(Peer) []string
	}{
		{"driver/", "CSI driver %s is not registered", func(p Peer) []string { return p.Drivers }},
		{"daemonset/", "DaemonSet %s has no pod", func(p Peer) []string { return p.DaemonSets }},
	} {
		var all []string
		for _, o := range c.others {
			all = append(all, set.of(o)...)
		}
		slices.Sort(all)
		for _, one := range slices.Compact(all) {
			if !slices.Contains(set.of(c.node), one) {
				c.add(set.name+one, fmt.Sprintf(set.message, one), func(o Peer) bool { return !slices.Contains(set.of(o), one) })
			}
		}
	}
	for _, pod := range c.node.StaticPods {
		c.add("staticpod/"+pod, fmt.Sprintf("static pod %s is on no other node", pod), func(o Peer) bool { return slices.Contains(o.StaticPods, pod) })
	}
}

// donorImages finds a lost container store: a quarter of the donor's images is missing. The trial itself pulls an image. A
// kubelet reports at most 50 images, on the donor as here.
func (c *comparison) donorImages() {
	if here := len(c.node.Node.Status.Images); 4*here < 3*c.except.DonorImages {
		c.add("images", fmt.Sprintf("%d container images are on the disk, and %d were on the donor's", here, c.except.DonorImages),
			func(Peer) bool { return false })
	}
}

// images compares with other nodes if the donor's number is unknown. Nodes that have run for long have more images.
func (c *comparison) images() {
	if c.except.DonorImages > 0 {
		c.donorImages()
		return
	}
	here, smallest := len(c.node.Node.Status.Images), len(c.others[0].Node.Status.Images)
	for _, o := range c.others[1:] {
		smallest = min(smallest, len(o.Node.Status.Images))
	}
	c.add("images", fmt.Sprintf("%d container images are on the disk, and at least %d on other nodes", here, smallest), func(o Peer) bool {
		return 2*here >= len(o.Node.Status.Images)
	})
}

// address finds another node with the node's internal address. One such node is enough.
func (c *comparison) address() {
	for _, o := range c.others {
		for _, a := range o.Node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && slices.Contains(c.node.Node.Status.Addresses, a) {
				c.add("address", fmt.Sprintf("address %s is the address of node %s", a.Address, o.Node.Name), func(Peer) bool { return false })
			}
		}
	}
}

func (c *comparison) clock() {
	wrong := func(p Peer) bool { return p.Offset != nil && p.Offset.Abs() >= drift }
	if wrong(c.node) {
		off := *c.node.Offset
		than := "ahead of"
		if off < 0 {
			than = "behind"
		}
		c.add("clock", fmt.Sprintf("the clock is %s %s the API server's clock", span(off.Abs()), than), wrong)
	}
}
