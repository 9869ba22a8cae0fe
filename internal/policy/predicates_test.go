package policy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestPrototypeChanges: the end of a capture, the donor's return and another Prototype with the same name are news; other writes of the
// engine, reports and records included, are not.
func TestPrototypeChanges(t *testing.T) {
	at := metav1.NowMicro()
	for name, test := range map[string]struct {
		change      func(*v1alpha1.Prototype)
		news, ended bool
	}{
		"nothing":           {func(*v1alpha1.Prototype) {}, false, false},
		"a step":            {func(p *v1alpha1.Prototype) { p.Status.Phase = v1alpha1.PhaseSnapshotting }, false, false},
		"some progress":     {func(p *v1alpha1.Prototype) { p.Status.Progress = "pods left: 3" }, false, false},
		"a proof":           {func(p *v1alpha1.Prototype) { p.Status.Proof = &v1alpha1.Proof{} }, false, false},
		"no proof":          {func(p *v1alpha1.Prototype) { p.Status.Unproven = &v1alpha1.Unproven{} }, false, false},
		"a donor held":      {func(p *v1alpha1.Prototype) { p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: &at} }, false, false},
		"a donor back":      {func(p *v1alpha1.Prototype) { p.Status.Donor = &v1alpha1.DonorStatus{ReleasedAt: &at} }, true, false},
		"success":           {func(p *v1alpha1.Prototype) { p.Status.Phase = v1alpha1.PhaseSucceeded }, true, true},
		"failure":           {func(p *v1alpha1.Prototype) { p.Status.Phase = v1alpha1.PhaseFailed }, true, true},
		"another Prototype": {func(p *v1alpha1.Prototype) { p.UID = "2" }, true, true},
		"another name":      {func(p *v1alpha1.Prototype) { p.Name = "q" }, true, true},
	} {
		before := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "1"}, Status: v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseDraining}}
		after := before.DeepCopy()
		test.change(after)
		if News(before, after) != test.news || News(after, before) != test.news {
			t.Errorf("%s is news: %t", name, News(before, after))
		}
		if changed := ended(before) != ended(after); changed != test.ended {
			t.Errorf("%s changes what its pool's decision depends on: %t", name, changed)
		}
	}
}
