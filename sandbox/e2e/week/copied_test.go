package week

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/sandbox/machine"
)

// copies asserts that donors serve while their disks are copied. boots are of the donors, by capture.
type copies struct{ boots map[types.UID]string }

// assertServing asserts that a donor whose disk is copied takes pods, and is not rebooted.
func (c copies) assertServing(w *week, nodes []corev1.Node, all []v1alpha1.Prototype) {
	w.Helper()
	for _, p := range all {
		donor := p.Spec.Donor.NodeName
		machines := w.machines(w.poolOf(donor))
		at := slices.IndexFunc(machines, func(m machine.Status) bool { return m.Node == donor })
		if _, removed := w.removal.of(p.Name); removed || ended(&p) || !p.Spec.Settings.CopiesDonor() {
			continue // after the looks, which show a removal only after its record
		}
		if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == donor && n.Spec.Unschedulable }) {
			w.Fatalf("%s: %s cordons its donor, %s", now().Format(time.DateTime), p.Name, donor)
		}
		if boot, known := c.boots[p.UID]; at < 0 || known && boot != machines[at].BootID {
			w.Fatalf("%s: donor %s of %s is gone, or was rebooted", now().Format(time.DateTime), donor, p.Name)
		}
		c.boots[p.UID] = machines[at].BootID
	}
}

// assertMethods asserts that the captures of each day had the method of the policy, and that a donor that goes costs its capture only
// before the copy.
func (c copies) assertMethods(w *week, pool string) {
	w.Helper()
	succeeded, byCopy := map[v1alpha1.CaptureMethod]int{}, w.days
	if w.inPlaceFrom > 0 {
		byCopy = w.inPlaceFrom - 1
	}
	for _, p := range w.prototypes() {
		copied, removed := w.removal.of(p.Name)
		lost := p.Status.Failure != nil && p.Status.Failure.Reason == string(plan.DonorGone.Public())
		switch {
		case p.Spec.Pool != w.group(pool):
		case p.Status.Phase == v1alpha1.PhaseSucceeded:
			succeeded[p.Spec.Settings.Donor.Method]++
		case removed && p.Spec.Settings.CopiesDonor() && lost == copied:
			w.Errorf("the donor of %s was removed, its disk was copied before: %t, and the capture failed: %+v", p.Name, copied, p.Status.Failure)
		}
	}
	if succeeded[v1alpha1.MethodCopy] != byCopy || succeeded[v1alpha1.MethodInPlace] != w.days-byCopy {
		w.Errorf("of %s, the captures %v succeeded, want %d by copy and %d in place", pool, succeeded, byCopy, w.days-byCopy)
	}
	if len(c.boots) < byCopy {
		w.Errorf("only %d donors were seen while their disks were copied", len(c.boots))
	}
}

// copied are Auto Scaling groups, whose donors serve while their disks are copied, until the policy names the method InPlace.
type copied struct {
	groups
	copies
}

func (c *copied) assertAlways(w *week, nodes []corev1.Node, all []v1alpha1.Prototype) {
	w.Helper()
	c.assertServing(w, nodes, all)
}

// assertEnd asserts also that nothing is left beside the groups.
func (c *copied) assertEnd(w *week, pool string) {
	w.Helper()
	c.assertMethods(w, pool)
	loose, err := sandbox.AWS().Loose(w.Context())
	w.must(err)
	if len(loose) > 0 {
		w.Errorf("beside the groups there are %v", loose)
	}
}
