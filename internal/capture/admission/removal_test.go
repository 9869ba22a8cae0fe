package admission

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestAPoolAtItsMaximum is refused only for a capture that grows the pool.
func TestAPoolAtItsMaximum(t *testing.T) {
	off := false
	for _, test := range []struct {
		name                 string
		capacity, tag, scale int64
		change               func(*v1alpha1.DonorSettings)
		refused              bool
		says                 string
	}{
		{name: "no maximum", capacity: 5},
		{name: "room", capacity: 4, tag: 5, scale: 6},
		{name: "by its cloud", capacity: 5, tag: 5, refused: true, says: "has 5 of 5 nodes, the maximum of the autoscaler"},
		{name: "by the autoscaler", capacity: 5, scale: 5, refused: true, says: "before node donor is drained"},
		{name: "by the less of both", capacity: 5, tag: 9, scale: 5, refused: true, says: "settings.donor.growFirst: false"},
		{name: "by the less of both, the other way", capacity: 5, tag: 5, scale: 9, refused: true},
		{name: "larger than it may be", capacity: 7, tag: 5, refused: true, says: "has 7 of 5"},
		{name: "it is not to grow", capacity: 5, tag: 5, change: func(d *v1alpha1.DonorSettings) { d.GrowFirst = &off }},
		{name: "its donor returns", capacity: 5, tag: 5, change: func(d *v1alpha1.DonorSettings) { d.AfterCapture = v1alpha1.ReturnDonor }},
		{name: "its donor stays in service", capacity: 5, tag: 5, change: func(d *v1alpha1.DonorSettings) {
			*d = copiedDonor().Prototype.Spec.Settings.Donor
		}},
	} {
		c := sound()
		c.Recipe = Found(cloud.Pool{ID: "memory:///pool1", Capacity: test.capacity, MaxSize: test.tag})
		c.Removal, c.CanCopy, c.CopyRightLacking = Found(DonorRemoval{Most: test.scale}), true, Found("")
		if test.change != nil {
			test.change(&c.Prototype.Spec.Settings.Donor)
		}
		v := c.Judge()
		if want := map[bool][]string{true: {cloud.PoolAtMaximum}, false: nil}[test.refused]; !slices.Equal(reasons(v), want) || v.Err() != nil {
			t.Errorf("%s: %+v", test.name, v)
		}
		if test.refused && !strings.Contains(v.Refusals[0].Message, test.says) {
			t.Errorf("%s: %s", test.name, v.Refusals[0].Message)
		}
	}
}

// TestForceLosesVolumes, but no other refusal of a donor that does not return.
func TestForceLosesVolumes(t *testing.T) {
	for _, force := range []bool{true, false} {
		c := sound()
		c.Prototype.Spec.Settings.Drain.Force = force
		c.Removal = Found(DonorRemoval{Volumes: []string{"pv-1"}, NoToken: true})
		want := []string{LocalVolumes, BootstrapTokenExpired}
		if force {
			want = want[1:]
		}
		if got := reasons(c.Judge()); !slices.Equal(got, want) {
			t.Errorf("force %t: %v, want %v", force, got, want)
		}
		if d := c.RemovalCost(); d == nil || !slices.Equal(d.Volumes, []string{"pv-1"}) {
			t.Errorf("what it costs: %+v", d)
		}
	}
}

// Both forms of the cluster autoscaler's status.
const (
	statusAsText = `Cluster-autoscaler status at 2023-04-03 12:41:09.114 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=7 unready=0 notStarted=0 registered=7 longUnregistered=0)
  ScaleUp:     NoActivity (ready=7 registered=7)

NodeGroups:
  Name:        pool1
  Health:      Healthy (ready=3 unready=0 notStarted=0 registered=3 longUnregistered=0 cloudProviderTarget=3 (minSize=1, maxSize=5))
  ScaleUp:     NoActivity (ready=3 cloudProviderTarget=3)
  ScaleDown:   NoCandidates (candidates=0)

  Name:        pool10
  Health:      Healthy (ready=4 unready=0 notStarted=0 registered=4 longUnregistered=0 cloudProviderTarget=4 (minSize=0, maxSize=40))
`
	statusAsYAML = `time: 2024-11-24 04:28:19.5 +0000 UTC
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
nodeGroups:
- name: pool1
  health:
    status: Healthy
    cloudProviderTarget: 3
    minSize: 1
    maxSize: 5
  scaleUp:
    status: NoActivity
- name: "pool10"
  health:
    minSize: 0
    maxSize: 40
- health:
    maxSize: 60
    minSize: 0
  name: pool2
`
)

func TestMostByAutoscaler(t *testing.T) {
	for name, test := range map[string]struct {
		status, pool string
		want         int64
	}{
		"as text":             {statusAsText, "pool1", 5},
		"as YAML":             {statusAsYAML, "pool1", 5},
		"another, as text":    {statusAsText, "pool10", 40},
		"another, as YAML":    {statusAsYAML, "Pool10", 40},
		"a path":              {strings.ReplaceAll(statusAsText, "pool1\n", "projects/p/pool1\n"), "pool1", 5},
		"not its own":         {statusAsText, "pool3", 0},
		"no status":           {"", "pool1", 0},
		"something else":      {"maxSize: 4\nname pool1\n", "pool1", 0},
		"a number of no size": {"- name: pool1\n  maxSize: many\n", "pool1", 0},
	} {
		if got := MostByAutoscaler(test.status, test.pool); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestOnNode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelHostname: "host", corev1.LabelTopologyZone: "z1"}}}
	demands := func(key string, op corev1.NodeSelectorOperator, values ...string) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}},
		}}}}
	}
	for name, test := range map[string]struct {
		affinity *corev1.VolumeNodeAffinity
		phase    corev1.PersistentVolumePhase
		want     bool
	}{
		"a local volume":          {demands(corev1.LabelHostname, corev1.NodeSelectorOpIn, "host"), corev1.VolumeBound, true},
		"by a driver's own key":   {demands("topology.example/node", corev1.NodeSelectorOpIn, "n"), corev1.VolumeBound, true},
		"of another node":         {demands(corev1.LabelHostname, corev1.NodeSelectorOpIn, "other"), corev1.VolumeBound, false},
		"of several":              {demands(corev1.LabelHostname, corev1.NodeSelectorOpIn, "host", "other"), corev1.VolumeBound, false},
		"of its zone":             {demands(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "z1"), corev1.VolumeBound, false},
		"of all but it":           {demands(corev1.LabelHostname, corev1.NodeSelectorOpNotIn, "host"), corev1.VolumeBound, false},
		"a host's name elsewhere": {demands("rack", corev1.NodeSelectorOpIn, "host"), corev1.VolumeBound, false},
		"without a claim":         {demands(corev1.LabelHostname, corev1.NodeSelectorOpIn, "host"), corev1.VolumeAvailable, false},
		"of any node":             {nil, corev1.VolumeBound, false},
		"that demands nothing":    {&corev1.VolumeNodeAffinity{}, corev1.VolumeBound, false},
	} {
		v := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: test.affinity}, Status: corev1.PersistentVolumeStatus{Phase: test.phase}}
		if got := OnNode(v, n); got != test.want {
			t.Errorf("a volume %s: %t", name, got)
		}
	}
}

// TestRemovalCostSentences in whole sentences, and only for a donor that does not return.
func TestRemovalCostSentences(t *testing.T) {
	c := sound()
	bare := readyNode("donor")
	c.Prototype.Spec.Settings.Donor.CarryOver, c.Donor = v1alpha1.CarryOver{}, Found(Donor{Node: &bare})
	c.Recipe = Found(cloud.Pool{ID: "memory:///pool1", Capacity: 3})
	c.Removal = Found(DonorRemoval{Volumes: []string{"pv-1"}})
	want := []string{
		"remove node donor and its instance from pool pool1 after the copy of the disk",
		"first grow the pool from 3 to 4 nodes, and wait until the new node is Ready: the pool has one extra node for about an hour",
		"permanently lose the data of volumes on this node: pv-1",
	}
	if got := c.RemovalCost().Sentences("donor", "pool1"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	marked, peer := readyNode("donor"), readyNode("peer")
	marked.Labels = map[string]string{
		corev1.LabelOSStable:         "linux",
		corev1.LabelHostname:         "donor",
		"team":                       "blue",
		"gpu":                        "",
		v1alpha1.VersionLabel:        "2026.03.01",
		"node.kubernetes.io/exclude": "x",
	}
	peer.Labels[corev1.LabelHostname] = "peer"
	marked.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
		{Key: "shared", Effect: corev1.TaintEffectNoSchedule},
	}
	peer.Spec.Taints = marked.Spec.Taints[2:]
	c.Donor, c.PoolNodes = Found(Donor{Node: &marked}), Found(PoolNodes{Peers: []corev1.Node{peer}})
	want = append(
		want,
		"lose labels that no other node of the pool has: gpu=, team=blue. Set the labels in the pool's recipe, in settings.donor.carryOver, or on the replacement: kubectl label node REPLACEMENT gpu= team=blue",
		"lose taints that no other node of the pool has: dedicated=batch:NoSchedule. Set the taints in the pool's recipe, in settings.donor.carryOver, or on the replacement: kubectl taint node REPLACEMENT dedicated=batch:NoSchedule",
	)
	if got := c.RemovalCost().Sentences("donor", "pool1"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	carrying := *c
	carrying.Prototype = c.Prototype.DeepCopy()
	carrying.Prototype.Spec.Settings.Donor.CarryOver = v1alpha1.CarryOver{Labels: []string{"team", "gpu"}, Taints: []string{"dedicated"}}
	carried := append(slices.Clone(want[:len(want)-2]), "set on the replacement, as on this node: gpu=, team=blue, dedicated=batch:NoSchedule")
	if got := carrying.RemovalCost().Sentences("donor", "pool1"); !slices.Equal(got, carried) {
		t.Errorf("%q", got)
	}
	marked.Spec.Taints = nil
	if got := c.RemovalCost().Sentences("donor", "pool1"); !slices.Equal(got, want[:len(want)-1]) {
		t.Errorf("without taints: %q", got)
	}
	c.PoolNodes = Found(PoolNodes{})
	if d := c.RemovalCost(); d.Labels != nil || d.Taints != nil {
		t.Errorf("without another node: %+v", d)
	}
	for _, d := range []RemovalCost{{}, {GrowsFirst: true}} {
		says := d.Sentences("donor", "pool1")
		if len(says) != 2 || strings.Contains(says[1], "one node short") == d.GrowsFirst || strings.Contains(says[1], " 0 ") {
			t.Errorf("%+v: %q", d, says)
		}
	}
	c.Prototype.Spec.Settings.Donor.AfterCapture = v1alpha1.ReturnDonor
	if d := c.RemovalCost(); d != nil {
		t.Errorf("a donor that returns: %+v", d)
	}
}

// TestWhenLabelsAreCarriedOver: the permission is asked only if this process would write a label or a taint of the donor. An
// unknown donor may have the label.
func TestWhenLabelsAreCarriedOver(t *testing.T) {
	taint := corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	for name, test := range map[string]struct {
		change func(*Case)
		want   bool
	}{
		"a label of the donor": {func(*Case) {}, true},
		"a taint of the donor": {func(c *Case) {
			donor, _ := c.Donor.Get()
			donor.Node.Spec.Taints = []corev1.Taint{taint}
			c.Prototype.Spec.Settings.Donor.CarryOver = v1alpha1.CarryOver{Taints: []string{"dedicated"}}
		}, true},
		"a taint with the key of a label": {func(c *Case) {
			donor, _ := c.Donor.Get()
			donor.Node.Spec.Taints = []corev1.Taint{taint}
			c.Prototype.Spec.Settings.Donor.CarryOver = v1alpha1.CarryOver{Labels: []string{"dedicated"}}
		}, false},
		"another key":    {func(c *Case) { c.Prototype.Spec.Settings.Donor.CarryOver.Labels = []string{"tea"} }, false},
		"no key":         {func(c *Case) { c.Prototype.Spec.Settings.Donor.CarryOver = v1alpha1.CarryOver{} }, false},
		"a donor unread": {func(c *Case) { c.Donor = Unread[Donor](errors.New("away")) }, true},
		"a donor gone":   {func(c *Case) { c.Donor = Found(Donor{}) }, true},
		"no key, and unread": {func(c *Case) {
			c.Prototype.Spec.Settings.Donor.CarryOver, c.Donor = v1alpha1.CarryOver{}, Unread[Donor](errors.New("away"))
		}, false},
		"a donor returns":   {func(c *Case) { c.Prototype.Spec.Settings.Donor.AfterCapture = v1alpha1.ReturnDonor }, false},
		"a donor is added":  {func(c *Case) { c.Prototype.Spec.Pioneer = &v1alpha1.PioneerSettings{Node: v1alpha1.PioneerGrow} }, false},
		"only thought of":   {func(c *Case) { c.Prototype.UID = "" }, false},
		"a capture by hand": {func(c *Case) { c.Prototype.UID, c.Process.Drives = "", true }, true},
	} {
		c := sound()
		test.change(c)
		if got := c.AsksCarryOver(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
