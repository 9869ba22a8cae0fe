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

// copied are Auto Scaling groups, whose donors serve while their disks are copied, until the policy names the method InPlace.
type copied struct {
	groups
	// boots of the donors, by capture.
	boots map[types.UID]string
}

// assertAlways asserts that a donor whose disk is copied takes pods, and is not rebooted.
func (c *copied) assertAlways(w *week, nodes []corev1.Node, all []v1alpha1.Prototype) {
	w.Helper()
	for _, p := range all {
		if ended(&p) || !p.Spec.Settings.CopiesDonor() {
			continue
		}
		donor := p.Spec.Donor.NodeName
		if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == donor && n.Spec.Unschedulable }) {
			w.Fatalf("%s: %s cordons its donor, %s", now().Format(time.DateTime), p.Name, donor)
		}
		machines := w.machines(w.poolOf(donor))
		at := slices.IndexFunc(machines, func(m machine.Status) bool { return m.Node == donor })
		if at < 0 {
			continue // the test removed the donor
		}
		if boot, known := c.boots[p.UID]; known && boot != machines[at].BootID {
			w.Fatalf("%s: donor %s of %s was rebooted", now().Format(time.DateTime), donor, p.Name)
		}
		c.boots[p.UID] = machines[at].BootID
	}
}

// ofDonor are the failures of a capture whose donor is gone.
var ofDonor = []plan.Reason{plan.DonorGone, plan.ReservationLost}

// assertEnd asserts that the captures of each day had the method of the policy, and that nothing is left beside the groups.
func (c *copied) assertEnd(w *week, pool string) {
	w.Helper()
	succeeded := map[v1alpha1.CaptureMethod]int{}
	for _, p := range w.prototypes() {
		if w.poolOf(p.Spec.Donor.NodeName) == pool && p.Status.Phase == v1alpha1.PhaseSucceeded {
			succeeded[p.Spec.Settings.Donor.Method]++
		}
		if f := p.Status.Failure; f != nil && slices.Contains(w.removal.copied, p.Name) && slices.Contains(ofDonor, plan.Reason(f.Reason)) {
			w.Errorf("%s failed as its donor was removed, whose disk was copied before: %+v", p.Name, f)
		}
	}
	if byCopy, inPlace := succeeded[v1alpha1.MethodCopy], succeeded[v1alpha1.MethodInPlace]; byCopy != w.inPlaceFrom-1 || inPlace != w.days-byCopy {
		w.Errorf("of %s, %d captures by copy and %d in place succeeded; the policy names InPlace from day %d on", pool, byCopy, inPlace, w.inPlaceFrom)
	}
	if len(c.boots) < w.inPlaceFrom-1 {
		w.Errorf("only %d donors were seen while their disks were copied", len(c.boots))
	}
	loose, err := sandbox.AWS().Loose(w.Context())
	w.must(err)
	if len(loose) > 0 {
		w.Errorf("beside the groups there are %v", loose)
	}
}
