package week

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/region"
)

// finish ends the trouble, lets the controller complete its work, and stops the controller.
func (w *week) finish() {
	w.Helper()
	w.trouble.stop(true)
	w.must(sandbox.Cloud().ClearFaults())
	w.settle()
	w.eventually("the newest nodes are labelled", func() (bool, string) {
		for pool, name := range w.newest {
			if got := w.node(name).Labels[v1alpha1.VersionLabel]; got != w.dayName(w.days) {
				return false, "the newest node of " + pool + " says " + got
			}
		}
		return true, ""
	})
	w.stopController()
}

func (w *week) node(name string) *corev1.Node {
	w.Helper()
	n, err := sandbox.Kube().CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	return n
}

// assertEnd asserts the state on the eighth day.
func (w *week) assertEnd() {
	w.Helper()
	snapshots, err := sandbox.Snapshots(w.Context())
	w.must(err)
	if len(snapshots) > 0 {
		w.Errorf("snapshots are left behind: %v", snapshots)
	}
	pods, err := sandbox.Kube().CoreV1().Pods(v1alpha1.DefaultGeneralizeNamespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	if len(pods.Items) > 0 {
		w.Errorf("%d generalize pods are left behind", len(pods.Items))
	}
	lease, err := sandbox.Kube().CoordinationV1().Leases(v1alpha1.DefaultNamespace).Get(w.Context(), v1alpha1.LeaseName, metav1.GetOptions{})
	w.must(err)
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		w.Errorf("%s still holds the Lease", *holder)
	}
	if leased := w.leased(); len(leased) > 0 {
		w.Errorf("captures still have Leases of %v", leased)
	}
	if collisions := sandbox.Fleet().Collisions(); len(collisions) > 0 {
		w.Errorf("machines have their donors' identity: %v", collisions)
	}
	if rolled := sandbox.Cloud().UpgradedByCloud(); len(rolled) > 0 {
		w.Errorf("nodes were rebuilt while they ran: %v", rolled)
	}
	w.assertNodes()
	recipes := w.recipes()
	for _, pool := range w.pools {
		w.assertPool(pool, recipes[pool])
	}
	w.assertTrouble()
}

// assertNodes asserts that every node serves and has no reservation.
func (w *week) assertNodes() {
	w.Helper()
	nodes, err := sandbox.Kube().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for _, n := range nodes.Items {
		left := slices.DeleteFunc([]string{v1alpha1.ReservationAnnotation, v1alpha1.ScaleDownDisabledAnnotation, v1alpha1.DoNotDisruptAnnotation},
			func(name string) bool { return n.Annotations[name] == "" })
		if n.Spec.Unschedulable || len(left) > 0 {
			w.Errorf("node %s is left cordoned (%t) or with annotations %v", n.Name, n.Spec.Unschedulable, left)
		}
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			w.Errorf("node %s is not Ready", n.Name)
		}
	}
}

// assertPool asserts a pool's recipe, instances and versions.
func (w *week) assertPool(pool, recipe string) {
	w.Helper()
	if recipe != w.dayName(w.days) {
		w.Errorf("the recipe of %s names %q, want %s", pool, recipe, w.dayName(w.days))
	}
	instances, err := sandbox.Instances(w.Context(), pool)
	w.must(err)
	held, err := sandbox.Protected(w.Context(), pool)
	w.must(err)
	for _, id := range held {
		w.Errorf("instance %s of %s is left protected, or aside", id, pool)
	}
	running := map[string]int{}
	for _, m := range sandbox.MachinesOf(w.T, pool) {
		running[w.versionOf(pool, m.Image)]++
		if m.Power != fleet.On {
			w.Errorf("machine %s is left %s", m.ID, m.Power)
		}
	}
	if len(instances) != len(w.machines(pool)) {
		w.Errorf("%s has %d instances and %d machines", pool, len(instances), len(w.machines(pool)))
	}
	versions, err := sandbox.Versions(w.Context(), pool)
	w.must(err)
	w.assertVersions(pool, versions, running)
	w.pooler.assertEnd(w, pool)
}

// assertVersions asserts that the pool has the newest good versions, as many as the policy keeps. All other
// versions have running nodes.
func (w *week) assertVersions(pool string, versions []region.Version, running map[string]int) {
	w.Helper()
	slices.SortFunc(versions, func(a, b region.Version) int { return imageversion.Compare(b.Name, a.Name) })
	good := 0
	for _, v := range versions {
		name := v.Name
		quarantined := v.Tags[cloud.TagQuarantined] != ""
		if bad := name == w.dayName(w.badDay); bad != quarantined {
			w.Errorf("version %s of %s is quarantined: %t, want %t", name, pool, quarantined, bad)
		}
		if !quarantined {
			good++
		}
		if (quarantined || good > keep) && running[name] == 0 {
			w.Errorf("%s keeps version %s, which no node runs", pool, name)
		}
		if !v.Complete {
			w.Errorf("version %s of %s is incomplete", name, pool)
		}
	}
	if good < keep {
		w.Errorf("%s has %d good versions, want %d at least", pool, good, keep)
	}
}

// assertTrouble asserts that each kind of trouble happened, and that one capture of each pool and day succeeded.
func (w *week) assertTrouble() {
	w.Helper()
	ends := map[v1alpha1.Phase]int{}
	reasons := map[string]int{}
	for _, p := range w.prototypes() {
		ends[p.Status.Phase]++
		if p.Status.Failure != nil {
			reasons[p.Status.Failure.Reason]++
		}
	}
	w.Logf("%d captures succeeded, %d failed %v; %d kills, %d of them with a capture in progress; %d of %d requests lost; %d donors removed",
		ends[v1alpha1.PhaseSucceeded], ends[v1alpha1.PhaseFailed], reasons, w.kills, w.killsInProgress, w.trouble.lost, w.trouble.asked, len(w.removal.donors))
	if ends[v1alpha1.PhaseSucceeded] != w.days*len(w.pools) {
		w.Errorf("%d captures succeeded, want one of each pool and day, %d", ends[v1alpha1.PhaseSucceeded], w.days*len(w.pools))
	}
	if w.killsInProgress == 0 || w.trouble.lost == 0 || len(w.removal.donors) != len(w.removals) {
		w.Errorf("a week without trouble shows nothing")
	}
}
