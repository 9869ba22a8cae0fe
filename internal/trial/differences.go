package trial

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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
}

// Compare compares a node with the Ready nodes of its pool that have other images, where those agree. With fewer than two such
// nodes, Compare compares the container images with the donor's, and the clock with the API server's.
func Compare(node Peer, others []Peer, except Exceptions) Comparison {
	c := comparison{node: node, others: others, except: except}
	for _, o := range others {
		c.Others = append(c.Others, o.Node.Name)
	}
	slices.Sort(c.Others)
	if len(others) < minOthers {
		c.clock()
		c.donorImages()
		return c.Comparison
	}
	for _, compare := range []func(){c.allocatable, c.taints, c.labels, c.conditions, c.kubelet, c.sets, c.images, c.address, c.clock} {
		compare()
	}
	for _, found := range [][]Difference{c.Differences, c.Disagreements} {
		slices.SortFunc(found, func(x, y Difference) int { return strings.Compare(x.Name, y.Name) })
	}
	return c.Comparison
}

type comparison struct {
	Comparison
	node   Peer
	others []Peer
	except Exceptions
}

// add records a property of the node. shares reports whether another node has the same property.
func (c *comparison) add(name, message string, shares func(Peer) bool) {
	if slices.ContainsFunc(c.except.Ignored, func(i string) bool { return matches(i, name) }) {
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

// passing are taints that other controllers set on a node for a time.
var passing = []string{
	corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable,
	"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted",
}

func (c *comparison) taints() {
	seen := map[corev1.Taint]bool{}
	for _, p := range append(slices.Clone(c.others), c.node) {
		for _, t := range p.Node.Spec.Taints {
			t.TimeAdded = nil
			if seen[t] || slices.Contains(passing, t.Key) {
				continue
			}
			seen[t] = true
			text := t.ToString()
			if has := hasTaint(t); has(c.node) {
				c.add("taint/"+t.Key, "taint "+text+" is on no other node", has)
			} else {
				c.add("taint/"+t.Key, "taint "+text+" is missing", func(o Peer) bool { return !has(o) })
			}
		}
	}
}

func hasTaint(t corev1.Taint) func(Peer) bool {
	return func(p Peer) bool {
		return slices.ContainsFunc(p.Node.Spec.Taints, func(o corev1.Taint) bool { return o.MatchTaint(&t) && o.Value == t.Value })
	}
}

// number begins a version or an amount. A new image may change the number.
var number = regexp.MustCompile(`^v?[0-9]`)

// perNode matches labels that differ from node to node by their purpose.
var perNode = regexp.MustCompile(`(^|/)(hostname|zone|zone-id)$`)

// labels compares labels that most other nodes carry with one value.
func (c *comparison) labels() {
	for _, key := range c.labelKeys() {
		counts := map[string]int{}
		for _, o := range c.others {
			if value, found := o.Node.Labels[key]; found {
				counts[value]++
			}
		}
		for value, count := range counts {
			here, found := c.node.Node.Labels[key]
			bothNumbers := found && number.MatchString(value) && number.MatchString(here)
			if 2*count <= len(c.others) || found && here == value || c.own(value, here, found) || bothNumbers {
				continue
			}
			has := "is missing"
			if found {
				has = "is " + strconv.Quote(here)
			}
			c.add("label/"+key, fmt.Sprintf("label %s %s, and is %q on other nodes", key, has, value), func(o Peer) bool {
				other, there := o.Node.Labels[key]
				return !there || other != value
			})
		}
	}
}

// labelKeys are the labels of the other nodes that can be compared.
func (c *comparison) labelKeys() []string {
	keys := map[string]bool{}
	for _, o := range c.others {
		for key := range o.Node.Labels {
			if !strings.HasPrefix(key, "kamino.dev/") && !perNode.MatchString(key) {
				keys[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// own reports whether a label names the pool, and the node lacks the label or names its own group.
func (c *comparison) own(value, here string, found bool) bool {
	is := func(name string) func(string) bool {
		return func(n string) bool { return strings.EqualFold(n, name) }
	}
	return slices.ContainsFunc(c.except.Pool, is(value)) && (!found || slices.ContainsFunc(c.except.Own, is(here)))
}

// conditions compares conditions that report a problem. Some agents report health by a type that ends in Ready or
// Healthy.
func (c *comparison) conditions() {
	for _, condition := range c.node.Node.Status.Conditions {
		kind := string(condition.Type)
		if condition.Status != corev1.ConditionTrue || strings.HasSuffix(kind, "Ready") || strings.HasSuffix(kind, "Healthy") {
			continue
		}
		message := fmt.Sprintf("condition %s is True on no other node", kind)
		if why := strings.Trim(condition.Reason+": "+condition.Message, ": "); why != "" {
			message += " (" + why + ")"
		}
		c.add("condition/"+kind, message, func(o Peer) bool {
			return slices.ContainsFunc(o.Node.Status.Conditions, func(n corev1.NodeCondition) bool {
				return n.Type == condition.Type && n.Status == corev1.ConditionTrue
			})
		})
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

// sets compares CSI drivers and DaemonSets.
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
