package trial

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// passing are taints that Kubernetes sets on a node for a time, and leaving those of the autoscalers. An autoscaler only taints a node in
// service, so that its taint at the first look came from the disk.
var (
	passing = []string{corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}
	leaving = []string{
		"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption",
	}
)

// ComesFromDisk reports whether a taint that a node has before it is in service can only come from its disk.
func ComesFromDisk(t corev1.Taint) bool { return slices.Contains(leaving, t.Key) }

func (c *comparison) taints() {
	seen := map[corev1.Taint]bool{}
	for _, p := range append(slices.Clone(c.others), c.node) {
		for _, t := range p.Node.Spec.Taints {
			t.TimeAdded = nil
			text := t.ToString()
			if seen[t] || slices.Contains(passing, t.Key) || slices.Contains(leaving, t.Key) && !slices.Contains(p.FirstTaints, text) {
				continue
			}
			seen[t] = true
			switch has := hasTaint(t); {
			case !has(c.node):
				c.add("taint/"+t.Key, "taint "+text+" is missing", func(o Peer) bool { return !has(o) })
			case !c.orders(text):
				c.add("taint/"+t.Key, "taint "+text+" is on no other node", has)
			}
		}
	}
}

func hasTaint(t corev1.Taint) func(Peer) bool {
	return func(p Peer) bool {
		return slices.ContainsFunc(p.Node.Spec.Taints, func(o corev1.Taint) bool { return o.MatchTaint(&t) && o.Value == t.Value })
	}
}

// orders reports whether the recipe's user data has the text of a label or taint, and not as a part of a longer one.
func (c *comparison) orders(text string) bool {
	return regexp.MustCompile(`(^|[^\w./-])` + regexp.QuoteMeta(text) + `($|[^\w./-])`).MatchString(c.except.UserData)
}

// number begins a version or an amount. A new image may change the number.
var number = regexp.MustCompile(`^v?[0-9]`)

// perNode matches labels that differ from node to node by their purpose. Those of Karpenter name objects that a trial has of its own, and
// a market of instances.
var perNode = regexp.MustCompile(`(^|/)(hostname|zone|zone-id)$|^karpenter\.(sh/(nodepool|capacity-type)|k8s\.aws/ec2nodeclass)$`)

// hardware matches labels that describe the machine under the node. Sources: Node Feature Discovery, NVIDIA's GPU feature discovery.
var hardware = regexp.MustCompile(`^(feature\.node\.kubernetes\.io|nvidia\.com)/`)

// Names of images change with each version: labels of the image, and IDs, dates, and dotted versions in values.
var (
	imageKey  = regexp.MustCompile(`image|(^|[/._-])(ami|build|release)([._-]|$)`)
	imagePart = regexp.MustCompile(`ami-[0-9a-f]+|v?[0-9]+(\.[0-9]+)+|[0-9]{6,}|[0-9a-f]{12,}`)
)

// isOfImage reports whether the values of a label differ only in the names of images.
func (c *comparison) isOfImage(key, value, here string) bool {
	if imageKey.MatchString(strings.ToLower(key)) {
		return true
	}
	for _, name := range []string{c.node.Instance.Image, c.node.Instance.BuiltFrom} {
		if name = name[strings.LastIndex(name, "/")+1:]; name != "" && strings.Contains(here, name) {
			return true
		}
	}
	return imagePart.ReplaceAllString(value, "#") == imagePart.ReplaceAllString(here, "#")
}

// labels compares labels that most other nodes carry with one value, and further labels of the node.
func (c *comparison) labels() {
	for _, key := range labelKeys(c.others) {
		counts := map[string]int{}
		for _, o := range c.others {
			if value, found := o.Node.Labels[key]; found {
				counts[value]++
			}
		}
		for value, count := range counts {
			here, found := c.node.Node.Labels[key]
			if 2*count <= len(c.others) || found && c.expected(key, value, here) || c.own(value, here, found) {
				continue
			}
			c.add("label/"+key, fmt.Sprintf("label %s %s, and is %q on other nodes", key, is(here, found), value), func(o Peer) bool {
				other, there := o.Node.Labels[key]
				return !there || other != value
			})
		}
	}
	c.furtherLabels()
}

// expected reports whether a label may have another value than on other nodes.
func (c *comparison) expected(key, value, here string) bool {
	return here == value || number.MatchString(value) && number.MatchString(here) || isInstanceType(key) ||
		c.isOfImage(key, value, here) || c.orders(key+"="+here)
}

// furtherLabels finds labels with a purpose that no other node carries.
func (c *comparison) furtherLabels() {
	for _, key := range labelKeys([]Peer{c.node}) {
		value, user := c.node.Node.Labels[key], c.except.Selectors[key]
		switch {
		case user == "" && !strings.HasPrefix(key, "node.kubernetes.io/"), slices.Contains(c.except.OwnLabels, key), isInstanceType(key),
			c.orders(key + "=" + value):
			continue
		case user != "":
			user = ", and " + user + " selects nodes by this label"
		}
		c.add("label/"+key, fmt.Sprintf("label %s=%s is on no other node%s", key, value, user), func(o Peer) bool {
			_, there := o.Node.Labels[key]
			return there
		})
	}
}

func isInstanceType(key string) bool {
	return key == corev1.LabelInstanceTypeStable || key == corev1.LabelInstanceType
}

func is(value string, found bool) string {
	if !found {
		return "is missing"
	}
	return "is " + strconv.Quote(value)
}

// labelKeys are the labels of the nodes that can be compared.
func labelKeys(nodes []Peer) []string {
	keys := map[string]bool{}
	for _, o := range nodes {
		for key := range o.Node.Labels {
			if !strings.HasPrefix(key, "kamino.dev/") && !perNode.MatchString(key) && !hardware.MatchString(key) {
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

// instance compares what the node says of its instance with what the cloud says. It counts if it agrees on another node, of any type.
func (c *comparison) instance() {
	for key, known := range map[string]func(Peer) string{
		corev1.LabelInstanceTypeStable: func(p Peer) string { return p.Instance.Type },
		corev1.LabelTopologyZone:       func(p Peer) string { return p.Instance.Zone },
	} {
		here, found := c.node.Node.Labels[key]
		real := known(c.node)
		agrees := func(p Peer) bool { return known(p) != "" && strings.EqualFold(p.Node.Labels[key], known(p)) }
		if real == "" || agrees(c.node) || !slices.ContainsFunc(c.others, agrees) {
			continue
		}
		c.add("label/"+key, fmt.Sprintf("label %s %s, and the cloud says %q", key, is(here, found), real), func(p Peer) bool {
			return known(p) != "" && !agrees(p)
		})
	}
}
