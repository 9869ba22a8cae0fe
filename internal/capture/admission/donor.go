package admission

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/selection"
)

func (c *Case) node() string { return c.Prototype.Spec.Donor.NodeName }

func (c *Case) notInPool(why string) cloud.Refusal {
	return refuse(NotInPool, "choose another node", "node %s belongs to no supported pool: %s", c.node(), why)[0]
}

// Strayed reports that the donor is gone, or not in the pool of the decision. Looks at pods and the cloud would then see
// other objects. Unknown counts as not strayed.
func (c *Case) Strayed() bool {
	if donor, err := c.Donor.Get(); err == nil && (donor.Node == nil || donor.Replaced) {
		return true
	}
	around, err := c.PoolNodes.Get()
	return err == nil && around.Of.Pool != c.Pool
}

// donor judges the node by the rules of package selection, if the node is the donor of the decision.
func donor(c *Case) ([]cloud.Refusal, error) {
	found, err := resultOf(c.Donor, "the donor's Node")
	if err != nil {
		return nil, err
	}
	switch {
	case found.Node == nil:
		return refuse(NodeNotFound, "run `kubectl get nodes` to list nodes", "node %s not found", c.node()), nil
	case found.Replaced:
		return refuse(NodeNotFound, "decide again",
			"node %s is now instance %s, not %s as at the decision", c.node(), found.Node.Spec.ProviderID, c.Prototype.Spec.Donor.ProviderID), nil
	}
	around, err := resultOf(c.PoolNodes, "the pool's nodes")
	if err != nil {
		return nil, err
	}
	if refusals := c.misplaced(around); refusals != nil {
		return refusals, nil
	}
	settings := c.Prototype.Spec.Settings.Defaulted()
	var reserved func(*corev1.Node) bool
	if around.Reserved != nil {
		reserved = func(n *corev1.Node) bool { return around.Reserved[n.UID] }
	}
	return selection.Refusals(selection.Candidate{
		Node: found.Node, Pool: c.PoolName, Peers: around.Peers, Reserved: reserved, OwnNode: c.Process.OwnNode, Prototype: c.Prototype.Name,
		Disrupt: settings.Drain.Disrupt, MaxUnavailable: *settings.OutOfService.MaxUnavailable, InService: c.StaysInService(),
	}), nil
}

// misplaced refuses a donor in another pool than the pool of the decision, by ID and by name.
func (c *Case) misplaced(around PoolNodes) []cloud.Refusal {
	switch at := around.Of; {
	case at.Pool == "" && at.Why == "":
		return refuse(NodeNotFound, "run `kubectl get nodes` to list nodes", "node %s no longer exists", c.node())
	case at.Pool == "":
		return []cloud.Refusal{c.notInPool(at.Why)}
	case at.Pool != c.Pool:
		return refuse(NotInPool, "name the pool of the node",
			"node %s is in pool %s (%s), but spec.poolID is %s", c.node(), around.OfName, at.Pool, c.Pool)
	case !strings.EqualFold(around.OfName, c.Prototype.Spec.Pool):
		return refuse(NotInPool, "name the pool of the node",
			"node %s is in pool %s, not in %s", c.node(), around.OfName, c.Prototype.Spec.Pool)
	}
	return nil
}

// pods finds pods that cannot be evicted, or that ask for no eviction, if the donor is drained.
func pods(c *Case) ([]cloud.Refusal, error) {
	if c.Strayed() || c.StaysInService() {
		return nil, nil
	}
	found, err := resultOf(c.Pods, "the donor's pods")
	if err != nil {
		return nil, err
	}
	var refusals []cloud.Refusal
	if len(found.Stuck) > 0 {
		refusals = refuse(UnmanagedPods, "delete these pods, or use force to lose the pods",
			"node %s cannot be drained: %s", c.node(), strings.Join(found.Stuck, "; "))
	}
	if len(found.Protected) > 0 && !c.Prototype.Spec.Settings.Drain.Disrupt {
		refusals = append(
			refusals,
			refuse(selection.DoNotDisrupt, "choose another node, wait until these pods have ended, or allow the eviction with settings.drain.disrupt: true",
				"pods of node %s must not be evicted: %s", c.node(), strings.Join(found.Protected, ", "))...)
	}
	refusals = append(refusals, c.refuseRebooter(found)...)
	if len(found.Blocked) > 0 && !c.AsksForce() {
		refusals = append(refusals, refuse(EvictionBlocked, "add a replica of the workload, allow a disruption in its budget, or choose another node",
			"the API server would refuse to evict pods of node %s: %s", c.node(), strings.Join(found.Blocked, "; "))...)
	}
	return refusals, nil
}

func (c *Case) refuseRebooter(found Pods) []cloud.Refusal {
	if found.Rebooter == "" || !c.AsksRebooter() {
		return nil
	}
	return refuse(OtherRebooter, "keep the DaemonSet off the pool, or allow other rebooters with pioneer.otherRebooters: Allow",
		"DaemonSet %s also reboots node %s", found.Rebooter, c.node())
}

// AsksRebooter reports whether another tool may not reboot the node: the reboot would end the patch of a pioneer.
func (c *Case) AsksRebooter() bool { return RefusesPatchers(c.Prototype) }

// RefusesPatchers reports whether no other tool may patch or reboot the donor.
func RefusesPatchers(p *v1alpha1.Prototype) bool {
	pioneer := p.Spec.Pioneer
	return pioneer != nil && pioneer.Defaulted().OtherRebooters == v1alpha1.OtherRebootersRefuse
}

// donorClock refuses a donor with a wrong clock: the proof of a generalized disk carries the donor's time, and an old proof
// proves nothing.
func donorClock(c *Case) ([]cloud.Refusal, error) {
	if c.Strayed() {
		return nil, nil
	}
	ahead, err := resultOf(c.ClockAhead, "the donor's clock")
	if err != nil || ahead.Abs() <= MaxClockDifference {
		return nil, err
	}
	relation := "behind"
	if ahead > 0 {
		relation = "ahead of"
	}
	return refuse(DonorClockOff, "synchronize the clock, for example with chrony, or capture another node",
		"the clock of node %s is %s %s the API server's, so a proof from the node would be invalid", c.node(), ahead.Abs().Round(time.Minute), relation), nil
}

// lineage refuses a donor with the image of a quarantined version.
func lineage(c *Case) ([]cloud.Refusal, error) {
	if c.Strayed() {
		return nil, nil
	}
	builtFrom, err := resultOf(c.BuiltFrom, "the version of the donor")
	if err != nil {
		return nil, err
	}
	return history.RefuseDonor(c.node(), c.Prototype.Spec.Pool, builtFrom), nil
}
