package admission

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// addedPioneer is a case without a refusal whose pool grows by the donor. The donor of the case is a node like the added node.
func addedPioneer() *Case {
	c := sound()
	c.Prototype.Spec.Pioneer = &v1alpha1.PioneerSettings{Node: v1alpha1.PioneerGrow}
	return c
}

// TestAddedDonor judges the pool, and nothing of the node that stands for the added node.
func TestAddedDonor(t *testing.T) {
	cordoned := onNode(func(n *corev1.Node) { n.Spec.Unschedulable, n.Status.Conditions = true, nil })
	for name, test := range map[string]struct {
		spoil  func(*Case)
		reason string
		words  string
	}{
		"nothing":                    {spoil: func(*Case) {}},
		"a cordoned node, not Ready": {spoil: cordoned},
		"pods that must stay":        {spoil: func(c *Case) { c.Pods = Found(Pods{Protected: []string{"default/db-0"}}) }},
		"pods that a budget keeps":   {spoil: func(c *Case) { c.Pods = Found(Pods{Blocked: []string{"default/web-0"}}) }},
		"a volume on the node": {spoil: func(c *Case) {
			c.Prototype.Spec.Settings.Drain.Force, c.Removal = false, Found(DonorRemoval{Volumes: []string{"pv-1"}})
		}},
		"no node":                   {func(c *Case) { c.Donor = Found(Donor{}) }, NodeNotFound, "node donor not found"},
		"another instance":          {func(c *Case) { d, _ := c.Donor.Get(); d.Replaced = true; c.Donor = Found(d) }, NodeNotFound, "node donor not found"},
		"a node of another pool":    {inSurroundings(func(p *PoolNodes) { p.Of.Pool, p.OfName = "memory:///pool2", "pool2" }), NotInPool, "pool2"},
		"another tool that reboots": {func(c *Case) { c.Pods = Found(Pods{Rebooter: "kube-system/kured"}) }, OtherRebooter, "DaemonSet kube-system/kured also reboots"},
		"no valid bootstrap token":  {func(c *Case) { c.Removal = Found(DonorRemoval{NoToken: true}) }, BootstrapTokenExpired, "cannot join"},
		"a pool at its maximum":     {func(c *Case) { c.Recipe = Found(cloud.Pool{ID: c.Pool, Capacity: 5, MaxSize: 5}) }, cloud.PoolAtMaximum, "must grow by one node for the patch, but has 5 of 5 nodes"},
		"the maximum of the autoscaler": {func(c *Case) {
			c.Recipe, c.Removal = Found(cloud.Pool{ID: c.Pool, Capacity: 5}), Found(DonorRemoval{Most: 5})
		}, cloud.PoolAtMaximum, "pioneer.node: Take"},
	} {
		c := addedPioneer()
		test.spoil(c)
		v := c.Judge()
		var want []string
		if test.reason != "" {
			want = []string{test.reason}
		}
		if got := reasons(v); !slices.Equal(got, want) || v.Err() != nil {
			t.Errorf("%s: %v (%v), want %v", name, v.Refusals, v.Err(), want)
		} else if test.reason != "" && !strings.Contains(v.Refusals[0].Message, test.words) {
			t.Errorf("%s: %q, want the words %q", name, v.Refusals[0].Message, test.words)
		}
	}
}

// TestAddedDonorUnread: what cannot be read is an error, and no refusal.
func TestAddedDonorUnread(t *testing.T) {
	lost := errors.New("the API server does not answer")
	for _, look := range []string{"Donor", "PoolNodes", "Pods", "Removal", "Recipe"} {
		c := addedPioneer()
		looks[look](c, lost)
		if v := c.Judge(); len(v.Refusals) > 0 || !errors.Is(v.Err(), lost) {
			t.Errorf("%s: %v, %v", look, v.Refusals, v.Err())
		}
	}
}

// TestCostOfAddedDonor: the pool has its former size at the end, and no node of others is named.
func TestCostOfAddedDonor(t *testing.T) {
	c := addedPioneer()
	c.Recipe, c.Removal = Found(cloud.Pool{ID: c.Pool, Capacity: 3}), Found(DonorRemoval{Volumes: []string{"pv-1"}})
	cost := c.RemovalCost()
	if cost == nil || !cost.Added || !cost.GrowsFirst || cost.Nodes != 3 || len(cost.Volumes) > 0 {
		t.Fatalf("%+v", cost)
	}
	text := strings.Join(cost.Sentences("donor", "pool1"), "\n")
	if !strings.Contains(text, "grow pool pool1 by one node") || strings.Contains(text, "donor") {
		t.Errorf("%s", text)
	}
}
