package admission

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// DonorRemoval holds facts about a donor that does not return, besides the cloud's facts.
type DonorRemoval struct {
	// Volumes with data on the node only, by the names of their PersistentVolumes.
	Volumes []string
	// NoToken: the cluster lists its bootstrap tokens, and no valid token exists.
	NoToken bool
	// Most is the cluster autoscaler's limit of nodes for the pool; 0 if unknown.
	Most int64
}

// refuseRemoval refuses a donor that does not return if data would be lost, or if the pool needs the node.
func refuseRemoval(c *Case) ([]cloud.Refusal, error) {
	spec := c.Prototype.Spec
	if !spec.ReplacesDonor() || c.Strayed() {
		return nil, nil
	}
	found, err := resultOf(c.Removal, "the effects of removing the donor")
	if err != nil {
		return nil, err
	}
	var refusals []cloud.Refusal
	if len(found.Volumes) > 0 && !spec.Settings.Drain.Force && !spec.AddsDonor() {
		refusals = refuse(LocalVolumes, "move the data, choose another node, or use force to lose the data",
			"node %s must be removed after the capture, but holds the only copy of these volumes: %s", c.node(), strings.Join(found.Volumes, ", "))
	}
	refusals = append(refusals, c.refuseToken(found)...)
	pool, err := c.Recipe.Get()
	most := least(pool.MaxSize, found.Most)
	switch {
	case err != nil || !spec.GrowsFirst() || most == 0 || pool.Capacity < most:
	case spec.AddsDonor():
		refusals = append(refusals, refuse(cloud.PoolAtMaximum, "raise the maximum, or patch a node of the pool with pioneer.node: Take",
			"pool %s must grow by one node for the patch, but has %d of %d nodes, the maximum of the autoscaler", c.PoolName, pool.Capacity, most)...)
	default:
		refusals = append(refusals, refuse(cloud.PoolAtMaximum, "disable the surge with settings.donor.growFirst: false, or raise the maximum",
			"pool %s must grow by one node before node %s is drained, but has %d of %d nodes, the maximum of the autoscaler", c.PoolName, c.node(),
			pool.Capacity, most)...)
	}
	return refusals, nil
}

// refuseToken refuses a capture that needs a new node if no bootstrap token is valid.
func (c *Case) refuseToken(found DonorRemoval) []cloud.Refusal {
	if !found.NoToken {
		return nil
	}
	return refuse(BootstrapTokenExpired, "create the token of the pool's recipe (kubeadm token create), then try again",
		"no bootstrap token of the cluster is valid (ConfigMap kube-public/cluster-info has no token signature), so new nodes of pool %s cannot join",
		c.PoolName)
}

// least returns the smaller number; 0 means no number.
func least(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// maxSize matches the largest size of a group in both forms of the autoscaler's status.
var maxSize = regexp.MustCompile(`(?i)maxSize[=:]\s*(\d+)`)

// MostByAutoscaler reads a pool's limit of nodes from the cluster autoscaler's status; 0 for a pool without autoscaler. Until
// 1.29 the status is text, later YAML. Both name a group before its sizes. Source: cluster-autoscaler, ConfigMap
// cluster-autoscaler-status.
func MostByAutoscaler(status, pool string) (most int64) {
	group := ""
	for line := range strings.Lines(status) {
		line = strings.TrimSpace(line)
		if item, begins := strings.CutPrefix(line, "- "); begins {
			line, group = item, ""
		}
		if key, name, found := strings.Cut(line, ":"); found && strings.EqualFold(key, "name") {
			group = strings.Trim(strings.TrimSpace(name), `"'`)
			group = group[strings.LastIndex(group, "/")+1:]
		}
		if m := maxSize.FindStringSubmatch(line); m != nil && strings.EqualFold(group, pool) {
			most, _ = strconv.ParseInt(m[1], 10, 64)
		}
	}
	return most
}

// OnNode reports whether a volume's data is on the node only: only that node meets the volume's node affinity.
func OnNode(volume *corev1.PersistentVolume, n *corev1.Node) bool {
	affinity := volume.Spec.NodeAffinity
	if volume.Status.Phase != corev1.VolumeBound || affinity == nil || affinity.Required == nil {
		return false
	}
	for _, term := range affinity.Required.NodeSelectorTerms {
		for _, demand := range term.MatchExpressions {
			if demand.Operator == corev1.NodeSelectorOpIn && len(demand.Values) == 1 &&
				(demand.Values[0] == n.Name || demand.Key == corev1.LabelHostname && demand.Values[0] == n.Labels[corev1.LabelHostname]) {
				return true
			}
		}
	}
	return false
}

// RemovalCost describes the cost of a donor that does not return.
type RemovalCost struct {
	// GrowsFirst: the pool grows by a node before Kamino drains the donor. Added: that node is the donor.
	GrowsFirst bool `json:"growsFirst"`
	Added      bool `json:"added,omitempty"`
	// Nodes is the pool's capacity; 0 if unknown.
	Nodes int64 `json:"nodes,omitempty"`
	// Volumes with data that is lost with the node.
	Volumes []string `json:"volumes,omitempty"`
	// Labels and Taints of the node that no other node of the pool has. The replacement lacks them.
	Labels []string `json:"labels,omitempty"`
	Taints []string `json:"taints,omitempty"`
	// CarriesOver are the labels and taints of the node that the replacement gets.
	CarriesOver []string `json:"carriesOver,omitempty"`
}

// RemovalCost returns the cost of a donor that does not return; nil if the donor returns.
func (c *Case) RemovalCost() *RemovalCost {
	spec := c.Prototype.Spec
	if !spec.ReplacesDonor() {
		return nil
	}
	found, _ := c.Removal.Get()
	pool, _ := c.Recipe.Get()
	if spec.AddsDonor() {
		return &RemovalCost{GrowsFirst: true, Added: true, Nodes: pool.Capacity}
	}
	d := &RemovalCost{GrowsFirst: spec.GrowsFirst(), Nodes: pool.Capacity, Volumes: found.Volumes}
	donor, _ := c.Donor.Get()
	around, _ := c.PoolNodes.Get()
	if donor.Node != nil && len(around.Peers) > 0 {
		d.Labels, d.Taints = onlyHere(donor.Node, around.Peers)
	}
	if donor.Node == nil || !d.GrowsFirst {
		return d
	}
	labels, taints := spec.Settings.Donor.CarryOver.Of(donor.Node)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		d.CarriesOver = append(d.CarriesOver, key+"="+labels[key])
	}
	for _, taint := range taints {
		d.CarriesOver = append(d.CarriesOver, taint.ToString())
	}
	isCarried := func(s string) bool { return slices.Contains(d.CarriesOver, s) }
	d.Labels, d.Taints = slices.DeleteFunc(d.Labels, isCarried), slices.DeleteFunc(d.Taints, isCarried)
	return d
}

// ofSystem matches keys that the cluster or Kamino writes for a state of the node.
var ofSystem = regexp.MustCompile(`^(kamino\.dev/|node\.kubernetes\.io/|node\.cloudprovider\.kubernetes\.io/|.*ClusterAutoscaler)`)

// onlyHere returns the labels and taints whose keys no peer has. A recipe gives all nodes of the pool the same keys, so other
// clients wrote these labels and taints.
func onlyHere(n *corev1.Node, peers []corev1.Node) (labels, taints []string) {
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		has := func(peer corev1.Node) bool { _, found := peer.Labels[key]; return found }
		if !ofSystem.MatchString(key) && !slices.ContainsFunc(peers, has) {
			labels = append(labels, key+"="+n.Labels[key])
		}
	}
	for _, taint := range n.Spec.Taints {
		has := func(peer corev1.Node) bool {
			return slices.ContainsFunc(peer.Spec.Taints, func(other corev1.Taint) bool { return other.Key == taint.Key })
		}
		if !ofSystem.MatchString(taint.Key) && !slices.ContainsFunc(peers, has) {
			taints = append(taints, taint.ToString())
		}
	}
	return labels, taints
}

// Sentences returns the cost in sentences, without the effects of every capture.
func (d *RemovalCost) Sentences(node, pool string) []string {
	if d.Added {
		return []string{
			fmt.Sprintf("grow pool %s by one node, and patch the new node", pool),
			"remove the new node after the copy of its disk, so that the pool has its former size",
		}
	}
	says := []string{fmt.Sprintf("remove node %s and its instance from pool %s after the copy of the disk", node, pool)}
	switch {
	case !d.GrowsFirst:
		says = append(says, "leave the pool one node short until the replacement is Ready")
	case d.Nodes > 0:
		says = append(
			says,
			fmt.Sprintf("first grow the pool from %d to %d nodes, and wait until the new node is Ready: the pool has one extra node for about an hour",
				d.Nodes, d.Nodes+1),
		)
	default:
		says = append(says, "first grow the pool by one node, and wait until the node is Ready: the pool has one extra node for about an hour")
	}
	if len(d.Volumes) > 0 {
		says = append(says, "permanently lose the data of volumes on this node: "+strings.Join(d.Volumes, ", "))
	}
	if len(d.CarriesOver) > 0 {
		says = append(says, "set on the replacement, as on this node: "+strings.Join(d.CarriesOver, ", "))
	}
	for _, lost := range []struct {
		what string
		all  []string
	}{{"label", d.Labels}, {"taint", d.Taints}} {
		if len(lost.all) > 0 {
			says = append(
				says,
				fmt.Sprintf(
					"lose %ss that no other node of the pool has: %s. Set the %ss in the pool's recipe, in settings.donor.carryOver, or on the replacement: kubectl %s node REPLACEMENT %s",
					lost.what, strings.Join(lost.all, ", "), lost.what, lost.what, strings.Join(lost.all, " ")),
			)
		}
	}
	return says
}
