package week

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// setup has the pools of the week, their owner, and their trouble.
type setup struct {
	// days is the number of days, and badDay is the day with the bad patch.
	days, badDay int
	// pools, and the number of nodes of each in the morning.
	pools []string
	size  int
	// turns is the number of nodes per pool that kured reboots on a day. Only these nodes may be donors.
	turns int
	// faults of the cloud, two per night. All faults are temporary. None affects the test's own requests.
	faults []fault.Fault
	// removals has the days on which a donor's instance is removed, and the request during which the removal
	// happens.
	removals map[int]moment
	// inPlaceFrom is the day from which the policy names the method InPlace; 0: the policy never names a method.
	inPlaceFrom int
	// options of the sandbox.
	options func(*world.Options)
	pooler
}

// pooler changes pools like other controllers and users, and asserts facts that not every cloud shows.
type pooler interface {
	// shrink removes surplus nodes from all pools, as an autoscaler does in quiet hours.
	shrink(w *week)
	// grow adds a node to a pool like an autoscaler, and returns when the node is Ready.
	grow(ctx context.Context, pool string) error
	// removeDonor removes the instance of a capture's donor, and returns when the instance is gone.
	removeDonor(ctx context.Context, p *v1alpha1.Prototype) error
	// assertAlways asserts invariants of the pools at every moment of a night, from the Nodes and captures of that
	// moment.
	assertAlways(w *week, nodes []corev1.Node, all []v1alpha1.Prototype)
	// assertEnd asserts the final state of a pool.
	assertEnd(w *week, pool string)
	// show logs the state of the pools after a failure.
	show(w *week)
}

// moment is a write request: the begin of the request, and a text in the request.
type moment struct {
	server      sandboxtest.Server
	write, text string
}

// groupSetup has pools of the cloud itself, whose donors return.
func groupSetup(cloud pool.Cloud) setup {
	s := setup{days: 7, badDay: 4, pools: []string{"amber", "birch", "cedar"}, size: 4, turns: 2, pooler: groups{}}
	s.options = func(o *world.Options) {
		o.Cloud = cloud
		for _, name := range s.pools {
			spec := pool.Spec{Name: name, Nodes: s.size, Max: 10}
			if cloud == pool.AWS {
				spec.Profile = "eks" // whose donors return, as on Azure
			}
			o.Pools = append(o.Pools, spec.Complete())
		}
	}
	return s
}

func azureSetup() setup {
	s := groupSetup(pool.Azure)
	s.removals = map[int]moment{2: {sandboxtest.Cloud, http.MethodPut, "/snapshots/"}, 6: {sandboxtest.Cloud, http.MethodPost, "/start"}}
	s.faults = []fault.Fault{
		{Name: "throttled", Resource: "version", RetryAfter: 1, Count: 3},
		{Name: "throttled-instances", Resource: "instance", RetryAfter: 1, Skip: 5, Count: 4},
		{Name: "no-snapshot", Resource: "snapshot", Operation: "put", Status: http.StatusServiceUnavailable, Count: 1},
		{Name: "no-answer", Resource: "snapshot", Operation: "put", Phase: fault.After, Drop: true, Count: 1},
		{Name: "no-start", Resource: "instance", Operation: "start", Status: http.StatusInternalServerError, Count: 1},
		{Name: "version-fails", Resource: "version", Operation: "put", Long: true, Count: 1},
		{Name: "conflict", Resource: "pool", Operation: "patch", Status: http.StatusConflict, Count: 1},
	}
	return s
}

func awsSetup() setup {
	s := groupSetup(pool.AWS)
	// A copy waits for real minutes, so the week has fewer days. On the second day the copy is taken when its donor goes, so the capture
	// does not need the donor.
	s.days, s.badDay, s.inPlaceFrom = 4, 2, 3
	s.removals = map[int]moment{1: {sandboxtest.Cloud, "CreateSnapshot", ""}, 2: {sandboxtest.Cloud, createVolume, ""},
		4: {sandboxtest.Cloud, "StartInstances", ""}}
	s.pooler = &copied{copies: copies{map[types.UID]string{}}}
	s.faults = append(faultsOfCopies(),
		fault.Fault{Name: "no-start", Operation: "StartInstances", Status: http.StatusInternalServerError, Count: 1},
		fault.Fault{Name: "contention", Operation: "EnterStandby", Status: http.StatusBadRequest, Code: "ResourceContention", Count: 1})
	return s
}

// createVolume makes the disk of a copy, after the snapshot of the donor's disk.
const createVolume = "CreateVolume"

// faultsOfCopies are faults on AWS. Requests for images are not throttled as a whole, because the test makes some, too.
func faultsOfCopies() []fault.Fault {
	return []fault.Fault{
		{Name: "throttled", Operation: "RegisterImage", RetryAfter: 1, Count: 3},
		{Name: "throttled-instances", Resource: "instance", RetryAfter: 1, Skip: 5, Count: 4},
		{Name: "no-snapshot", Operation: "CreateSnapshot", Status: http.StatusServiceUnavailable, Count: 1},
		{Name: "no-answer", Operation: "CreateSnapshot", Phase: fault.After, Drop: true, Count: 1},
		{Name: "version-fails", Operation: "RegisterImage", Long: true, Count: 1},
		{Name: "no-workshop", Operation: "RunInstances", Status: http.StatusInternalServerError, Code: "InsufficientInstanceCapacity", Count: 2},
		{Name: "no-volume", Operation: createVolume, Status: http.StatusServiceUnavailable, Count: 1},
		{Name: "no-answer-attached", Operation: "AttachVolume", Phase: fault.After, Drop: true, Count: 1},
		{Name: "no-detachment", Operation: "DetachVolume", Status: http.StatusInternalServerError, Count: 1},
	}
}

// groups are scale sets, or Auto Scaling groups.
type groups struct{}

// shrink removes any nodes.
func (groups) shrink(w *week) {
	w.Helper()
	var idle []string
	for _, pool := range w.pools {
		nodes := w.machines(pool)
		for len(nodes) > w.size {
			i := w.trouble.draw(len(nodes))
			idle = append(idle, nodes[i].Node)
			nodes = append(nodes[:i], nodes[i+1:]...)
		}
	}
	each(w, idle, sandbox.Remove)
}

// growTries is how often an autoscaler asks for a node while Kamino changes the pool, too.
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

func (groups) removeDonor(ctx context.Context, p *v1alpha1.Prototype) error {
	return sandbox.Remove(ctx, p.Spec.Donor.NodeName)
}

func (groups) assertAlways(*week, []corev1.Node, []v1alpha1.Prototype) {}

func (groups) assertEnd(*week, string) {}

func (groups) show(*week) {}
