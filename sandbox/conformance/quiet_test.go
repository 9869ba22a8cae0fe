package conformance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// mostReads limits the ARM requests per pool and hour while nothing happens.
const mostReads = 9

// day is when the quiet cluster is watched from, in the bubble's time.
var day = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

const (
	old    = "2026.11.20"
	quiet  = 24*time.Hour - time.Second
	bigger = 120 // nodes, of which the simulated cloud lists a page in one answer
	page   = 50
)

// quietPool is a pool of the quiet cluster.
type quietPool struct {
	name, why string
	nodes     int
	// version of the recipe; empty for the generic image.
	version string
	// fresh: the nodes were patched after the version was created, so that candidates exist.
	fresh bool
	// reason of the last decision, to verify the setup of the pool; empty without a policy.
	reason string
	// policy of this pool only. Without this policy, the common policy applies if reason is set.
	policy *v1alpha1.PrototypePolicySpec
}

func quietPools() []quietPool {
	soon := metav1.Duration{Duration: time.Minute}
	return []quietPool{
		{name: "idle-vmss", why: "not patched since its image was made", nodes: 2, version: old, reason: "UpToDate"},
		{name: "wide-vmss", why: fmt.Sprintf("the same, with %d nodes", bigger), nodes: bigger, version: old, reason: "UpToDate"},
		{name: "latest-vmss", why: "its recipe names the definition", nodes: 2, version: old, reason: "UpToDate"},
		{name: "promoted-vmss", why: "a version is promoted in its second hour", nodes: 2, version: old, reason: "UpToDate"},
		{name: "haunted-vmss", why: "a node whose instance is gone", nodes: 2, version: old, reason: "UpToDate"},
		{name: "generic-vmss", why: "its candidates never suffice", nodes: 2, fresh: true, reason: "TooFewCandidates",
			policy: &v1alpha1.PrototypePolicySpec{Selection: v1alpha1.SelectionSettings{MinCandidates: 5, MinReadyTime: &soon}}},
		{name: "tempted-vmss", why: "dryRun, with candidates", nodes: 2, version: old, fresh: true, reason: "DryRun",
			policy: &v1alpha1.PrototypePolicySpec{DryRun: true}},
		{name: "closed-vmss", why: "candidates wait for the schedule", nodes: 2, version: old, fresh: true, reason: "OutsideSchedule",
			policy: &v1alpha1.PrototypePolicySpec{Schedule: v1alpha1.ScheduleSettings{Cron: "0 3 1 1 *"}}},
		{name: "suspended-vmss", why: "its policy is suspended", nodes: 2, version: old, fresh: true, reason: "Suspended",
			policy: &v1alpha1.PrototypePolicySpec{Suspend: true}},
		{name: "free-vmss", why: "no policy is for it", nodes: 2, version: old},
	}
}

// TestQuietHours watches an unchanged cluster for a day. The controller stays under ten cloud requests per pool and
// hour. In the first hour the controller lists instances once more for pools with unlabelled nodes.
func TestQuietHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pools := quietPools()
		c := newQuiet(t, pools)
		c.run()
		time.Sleep(90*time.Minute + 30*time.Second)
		c.promote("promoted-vmss", version)
		time.Sleep(time.Until(day.Add(quiet)))
		synctest.Wait()
		c.wantDecisions(pools)
		for _, p := range pools {
			cost := c.tallyOf(p.name, false)
			t.Logf("%-14s (%s): %s", p.name, p.why, cost)
			pages := (p.nodes + page - 1) / page
			if worst := slices.Max(cost.hours[1:]); worst > mostReads || cost.hours[0] > mostReads+pages {
				t.Errorf("pool %s takes more than %d requests in one hour: %v", p.name, mostReads, cost.hours)
			}
			if cost.kinds["instance list"] < 24*pages {
				t.Errorf("pool %s was not watched for a day: %v", p.name, cost)
			}
		}
	})
}

// TestQuietTrouble counts where something lasting is in the way of a pool's captures.
func TestQuietTrouble(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		fault  fault.Fault
		// bursts: the first hour may have more requests, because the whole preflight runs.
		bursts bool
	}{
		"credential taken away":      {reason: v1alpha1.PolicyCloudUnavailable, fault: fault.Fault{Deny: "Microsoft.Compute/virtualMachineScaleSets/read"}},
		"captures are refused":       {reason: "PermissionMissing", fault: fault.Fault{Deny: "Microsoft.Compute/snapshots/write"}, bursts: true},
		"a trial's right is missing": {reason: "PermissionMissing", fault: fault.Fault{Deny: "Microsoft.Compute/virtualMachineScaleSets/delete"}, bursts: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pools := []quietPool{{name: "only-vmss", nodes: 3, version: old, fresh: true, reason: test.reason}}
				c := newQuiet(t, pools)
				c.fault(test.fault)
				c.run()
				time.Sleep(quiet)
				synctest.Wait()
				c.wantDecisions(pools)
				cost := c.tallyOf(pools[0].name, true)
				t.Log(cost)
				if worst := slices.Max(cost.hours[1:]); worst > mostReads || cost.hours[0] > mostReads && !test.bursts || cost.total() > 24*mostReads {
					t.Errorf("the pool takes more than %d requests an hour: %v", mostReads, cost.hours)
				}
			})
		})
	}
}

// TestRestoredPermissionIsNoticed removes a permission for a day and restores the permission. The lack is reported,
// and the capture begins within twenty minutes of the repair without any event.
func TestRestoredPermissionIsNoticed(t *testing.T) {
	for whose, action := range map[string]string{
		"a capture's": "Microsoft.Compute/snapshots/write", "a trial's": "Microsoft.Compute/virtualMachineScaleSets/delete",
	} {
		t.Run(whose, func(t *testing.T) { testRestoredPermission(t, action) })
	}
}

func testRestoredPermission(t *testing.T, action string) {
	synctest.Test(t, func(t *testing.T) {
		pools := []quietPool{{name: "only-vmss", nodes: 3, version: old, fresh: true, reason: cloud.PermissionMissing}}
		c := newQuiet(t, pools)
		c.fault(fault.Fault{Name: "taken", Deny: action})
		c.run()
		time.Sleep(quiet)
		synctest.Wait()
		c.wantDecisions(pools)
		policy := &v1alpha1.PrototypePolicy{}
		c.must(c.api.Get(c.ctx, kube.ObjectKey{Name: "common"}, policy))
		if got := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionDegraded); got == nil || got.Reason != cloud.PermissionMissing ||
			!strings.Contains(got.Message, action) {
			t.Errorf("the policy does not say what is missing: %+v", got)
		}
		series := `
# HELP kamino_pool_capture_refused 1 while a capture of the pool is due but refused, by pool and reason.
# TYPE kamino_pool_capture_refused gauge
kamino_pool_capture_refused{pool="only-vmss",reason="PermissionMissing"} 1
`
		c.must(testutil.CollectAndCompare(c.metrics, strings.NewReader(series), "kamino_pool_capture_refused"))
		c.must(c.cloud.ClearFaults("taken"))
		time.Sleep(20*time.Minute + time.Second)
		synctest.Wait()
		pools[0].reason = "CaptureInFlight" // as every read after the begin shows
		c.wantDecisions(pools)
	})
}

// newQuiet returns a cloud with the pools, and a controller before its start.
func newQuiet(t *testing.T, pools []quietPool) *controller {
	t.Helper()
	time.Sleep(time.Until(day.Add(-20 * time.Hour)))
	w := newCloudEnv(t, options{wire: newWire(), config: func(c *simulator.Config) { c.PageSize = page }, pool: func(p *simulator.PoolSpec) { p.Name, p.Nodes = pools[0].name, pools[0].nodes }})
	c := w.settle(pools)
	time.Sleep(time.Until(day))
	w.cloud.ResetStats()
	return c
}

// settle creates the pools with their versions, and a controller that knows their nodes.
func (w *cloudEnv) settle(pools []quietPool) *controller {
	w.t.Helper()
	for _, p := range pools[1:] {
		w.must(w.cloud.CreatePool(w.t.Context(), simulator.PoolSpec{Name: p.name, Nodes: p.nodes, MaxNodes: 1000, Generation: "V2"}))
	}
	from := w.snapshot()
	var nodes []*corev1.Node
	common := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "common", UID: "uid-common", Generation: 1}}
	objects := []kube.Object{common}
	for _, p := range pools {
		patched := time.Now().Add(-24 * time.Hour)
		if p.fresh {
			patched = time.Now().Add(4 * time.Hour)
		}
		members := w.nodesOf(p.name, patched, patched.Add(time.Hour))
		if p.version != "" {
			w.publishAndPromote(members[0], p.version, from)
			objects = append(objects, prototypeOf(p.name, p.version, members[0]))
		}
		nodes = append(nodes, members...)
		switch {
		case p.reason != "" && p.policy == nil:
			common.Spec.Pools.Names = append(common.Spec.Pools.Names, p.name)
		case p.policy != nil:
			own := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: p.name, UID: "uid-policy", Generation: 1}, Spec: *p.policy}
			own.Spec.Pools.Names = []string{p.name}
			objects = append(objects, own)
		}
		switch p.name {
		case "latest-vmss":
			w.followLatest(p)
		case "haunted-vmss":
			nodes = append(nodes, node("ghost", members[0].Spec.ProviderID+"99", patched, patched.Add(time.Hour)))
		}
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	c := newController(ctx, w, w.p, nodes, objects...)
	c.from = from
	return c
}

// publishAndPromote creates a version of the donor's pool, and sets the recipe to this version.
func (w *cloudEnv) publishAndPromote(donor *corev1.Node, version string, from cloud.Snapshot) {
	w.t.Helper()
	ctx := w.t.Context()
	pool := w.poolOf(cloud.InstanceID(donor.Spec.ProviderID))
	ref := cloud.ImageRef{Pool: pool, Version: version}
	tags := map[string]string{cloud.TagBuiltFrom: donor.Name, cloud.TagBuiltAt: time.Now().UTC().Format(cloud.BuiltAtLayout)}
	w.until("published", func() bool {
		have, err := w.p.EnsureImage(ctx, cloud.ImageSpec{ImageRef: ref, SnapshotID: from.ID, Tags: tags})
		w.must(err)
		return have.State == cloud.Complete
	})
	change, err := w.p.RecipeChange(ctx, ref, true)
	w.must(err)
	w.must(w.p.SetRecipe(ctx, change))
}

// followLatest sets the recipe to the image definition with a foreign client, as the Python original does.
func (w *cloudEnv) followLatest(p quietPool) {
	w.t.Helper()
	const compute = "/subscriptions/" + subscription + "/resourceGroups/" + group + "/providers/Microsoft.Compute/"
	definition := compute + "galleries/SIG_My_Group/images/kamino-" + p.name + "-prototype"
	version := definition + "/versions/" + p.version
	w.change(http.MethodPatch, version, map[string]any{"properties": map[string]any{"publishingProfile": map[string]any{
		"excludeFromLatest": false, "targetRegions": []any{map[string]any{"name": location}}}}})
	w.until("offered", func() bool {
		return w.document(version)["properties"].(map[string]any)["provisioningState"] == "Succeeded"
	})
	w.change(http.MethodPatch, compute+"virtualMachineScaleSets/"+p.name, map[string]any{"properties": map[string]any{
		"virtualMachineProfile": map[string]any{"storageProfile": map[string]any{"imageReference": map[string]any{"id": definition}}}}})
}

// tally has the requests of one pool, by kind and by hour since the controller's start.
type tally struct {
	kinds map[string]int
	hours [24]int
}

func (t tally) total() int {
	total := 0
	for _, n := range t.hours {
		total += n
	}
	return total
}

func (t tally) String() string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(t.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, t.kinds[kind]))
	}
	return fmt.Sprintf("%d requests in a day, %.1f an hour, %d in the first and at most %d in any other: %s",
		t.total(), float64(t.total())/24, t.hours[0], slices.Max(t.hours[1:]), strings.Join(kinds, ", "))
}

// tallyOf returns the requests for a pool since the start, without the requests of a capture. With only, requests
// without a pool are included.
func (c *controller) tallyOf(pool string, only bool) tally {
	c.t.Helper()
	out := tally{kinds: map[string]int{}}
	for _, r := range c.cloud.Requests() {
		path := strings.ToLower(r.Path) + "/"
		mine := only || strings.Contains(path, "/"+pool+"/") || strings.Contains(path, "/kamino-"+pool+"-prototype/")
		if r.Class == requestlog.Login || !mine || c.isDuringCapture(r.Time) {
			continue
		}
		out.kinds[r.Noun+" "+r.Operation]++
		out.hours[int(r.Time.Sub(day)/time.Hour)]++
	}
	return out
}

func (c *controller) isDuringCapture(at time.Time) bool {
	return slices.ContainsFunc(c.captured, func(span [2]time.Time) bool { return !at.Before(span[0]) && !at.After(span[1]) })
}

// wantDecisions requires that each pool has its expected decision.
func (c *controller) wantDecisions(pools []quietPool) {
	c.t.Helper()
	policies := &v1alpha1.PrototypePolicyList{}
	c.must(c.api.List(c.ctx, policies))
	reasons, messages := map[string]string{}, map[string]string{}
	for _, p := range policies.Items {
		for _, s := range p.Status.Pools {
			reasons[s.Name], messages[s.Name] = s.Decision.Reason, s.Decision.Message
		}
	}
	for _, p := range pools {
		if reasons[p.name] != p.reason {
			c.t.Errorf("the decision about pool %s is %q, want %q: %v", p.name, reasons[p.name], p.reason, messages[p.name])
		}
	}
}
