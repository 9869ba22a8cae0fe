package week

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// ground is what days are played on: pools, who makes them, and what befalls them.
type ground struct {
	// days it takes, and the one whose patch is bad.
	days, badDay int
	// pools, and how many nodes each has between two nights.
	pools []string
	size  int
	// turns is how many nodes of each pool get to be rebooted by kured on a day, which alone may be donors.
	turns int
	// faults of the cloud, one or two of which each night brings. All of them pass. None strikes what the test itself
	// asks the cloud at night.
	faults []fault.Fault
	// vanishings are the days on which a donor vanishes, and with what.
	vanishings map[int]moment
	// options are what its sandbox has that no other has.
	options func(*world.Options)
	hands
}

// hands of others than Kamino that are laid on pools, and eyes that see more of them than any cloud shows.
type hands interface {
	// shrink takes the nodes that are too many out of all pools, as an autoscaler does in quiet hours.
	shrink(w *week)
	// grow adds a node to a pool, as an autoscaler does, and returns when it is Ready.
	grow(ctx context.Context, pool string) error
	// vanish takes the instance of a capture's donor away, and returns when it is gone.
	vanish(ctx context.Context, p *v1alpha1.Prototype) error
	// sound demands what must be true of the pools at every moment of a night, by Nodes and captures that were just looked at.
	sound(w *week, nodes []corev1.Node, all []v1alpha1.Prototype)
	// judge demands what must be true of a pool in the end.
	judge(w *week, pool string)
	// tell shows what is known of the pools when the test has failed.
	tell(w *week)
}

// moment is a change that somebody is asked for: how it begins, and what is in it.
type moment struct {
	server      sandboxtest.Server
	write, says string
}

// ofClouds is the ground of pools that the cloud itself keeps, whose donors return.
func ofClouds() ground {
	g := ground{days: 7, badDay: 4, pools: []string{"amber", "birch", "cedar"}, size: 4, turns: 2, hands: groups{}}
	g.options = func(o *world.Options) {
		for _, name := range g.pools {
			spec := pool.Spec{Name: name, Nodes: g.size, Max: 10}
			if sandboxtest.Told() == pool.AWS {
				spec.Profile = "eks" // whose donors return, as they do on Azure
			}
			o.Pools = append(o.Pools, spec.Complete())
		}
	}
	of := map[pool.Cloud]ground{pool.Azure: {
		vanishings: map[int]moment{2: {sandboxtest.Cloud, http.MethodPut, "/snapshots/"}, 6: {sandboxtest.Cloud, http.MethodPost, "/start"}},
		faults: []fault.Fault{
			{Name: "throttled", Resource: "version", RetryAfter: 1, Count: 3},
			{Name: "throttled-instances", Resource: "instance", RetryAfter: 1, Skip: 5, Count: 4},
			{Name: "no-snapshot", Resource: "snapshot", Operation: "put", Status: http.StatusServiceUnavailable, Count: 1},
			{Name: "no-answer", Resource: "snapshot", Operation: "put", Phase: fault.After, Drop: true, Count: 1},
			{Name: "no-start", Resource: "instance", Operation: "start", Status: http.StatusInternalServerError, Count: 1},
			{Name: "version-fails", Resource: "version", Operation: "put", Long: true, Count: 1},
			{Name: "conflict", Resource: "pool", Operation: "patch", Status: http.StatusConflict, Count: 1},
		},
	}, pool.AWS: {
		vanishings: map[int]moment{2: {sandboxtest.Cloud, "CreateSnapshot", ""}, 6: {sandboxtest.Cloud, "StartInstances", ""}},
		faults: append(faultsOfAWS(),
			fault.Fault{Name: "no-start", Operation: "StartInstances", Status: http.StatusInternalServerError, Count: 1},
			fault.Fault{Name: "contention", Operation: "EnterStandby", Status: http.StatusBadRequest, Code: "ResourceContention", Count: 1}),
	}}[sandboxtest.Told()]
	g.vanishings, g.faults = of.vanishings, of.faults
	return g
}

// faultsOfAWS are those that befall disks and images, whoever makes the pools. Images are not throttled as a whole: the test asks for
// them itself, to tell what a recipe names.
func faultsOfAWS() []fault.Fault {
	return []fault.Fault{
		{Name: "throttled", Operation: "RegisterImage", RetryAfter: 1, Count: 3},
		{Name: "throttled-instances", Resource: "instance", RetryAfter: 1, Skip: 5, Count: 4},
		{Name: "no-snapshot", Operation: "CreateSnapshot", Status: http.StatusServiceUnavailable, Count: 1},
		{Name: "no-answer", Operation: "CreateSnapshot", Phase: fault.After, Drop: true, Count: 1},
		{Name: "version-fails", Operation: "RegisterImage", Long: true, Count: 1},
	}
}

// groups are scale sets, or Auto Scaling groups.
type groups struct{}

// shrink removes whichever nodes.
func (groups) shrink(w *week) {
	w.Helper()
	var idle []string
	for _, pool := range w.pools {
		nodes := w.machines(pool)
		for len(nodes) > w.size {
			i := w.troubles.draw(len(nodes))
			idle = append(idle, nodes[i].Node)
			nodes = append(nodes[:i], nodes[i+1:]...)
		}
	}
	each(w, idle, sandbox.Remove)
}

// growTries is how often an autoscaler asks for a node while somebody else changes the pool.
const growTries = 5

func (groups) grow(ctx context.Context, pool string) error {
	now, err := poolNow(ctx, pool)
	if err != nil {
		return err
	}
	for range growTries {
		if _, err = sandbox.Scale(ctx, pool, control.Scale{Nodes: now.Capacity + 1, Wait: true}, func(control.Event) {}); err == nil {
			return nil
		}
	}
	return err
}

func (groups) vanish(ctx context.Context, p *v1alpha1.Prototype) error {
	return sandbox.Remove(ctx, p.Spec.Donor.NodeName)
}

func (groups) sound(*week, []corev1.Node, []v1alpha1.Prototype) {}

func (groups) judge(*week, string) {}

func (groups) tell(*week) {}
