package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestACaptureOfAnEarlierVersionIsFound: an annotation alone, which any creator of a Prototype writes, finds nothing.
func TestACaptureOfAnEarlierVersionIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.Prototype)
		found  bool
	}{
		"in flight":           {func(*v1alpha1.Prototype) {}, true},
		"ended":               {func(p *v1alpha1.Prototype) { p.Status.Phase = v1alpha1.PhaseSucceeded }, false},
		"of this version":     {func(p *v1alpha1.Prototype) { p.Status.Record = &v1alpha1.Record{UID: "u"} }, false},
		"only annotated":      {func(p *v1alpha1.Prototype) { p.Status = v1alpha1.PrototypeStatus{} }, false},
		"without a record":    {func(p *v1alpha1.Prototype) { p.Annotations = nil }, false},
		"its donor is back":   {func(p *v1alpha1.Prototype) { p.Status.Donor, p.Status.Image = nil, &v1alpha1.ImageStatus{ID: "i"} }, true},
		"its pool is growing": {func(p *v1alpha1.Prototype) { p.Status.Donor, p.Status.Phase = nil, "Growing" }, true},
		"its donor is replaced": {func(p *v1alpha1.Prototype) {
			p.Status.Record = &v1alpha1.Record{UID: "u", Reservation: &v1alpha1.Reservation{Replacement: json.RawMessage(`{"growFirst":true}`)}}
		}, true},
		"its donor was replaced": {func(p *v1alpha1.Prototype) { p.Status.Record = &v1alpha1.Record{UID: "u"} }, false},
		"its donor never joined": {func(p *v1alpha1.Prototype) {
			p.Spec.Donor, p.Status.Record = v1alpha1.Donor{}, &v1alpha1.Record{UID: "u"}
		}, true},
		"it ended without a donor": {func(p *v1alpha1.Prototype) {
			p.Spec.Donor, p.Status.Record, p.Status.Phase = v1alpha1.Donor{}, &v1alpha1.Record{UID: "u"}, v1alpha1.PhaseFailed
		}, false},
	} {
		p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.14", UID: "u",
			Annotations: map[string]string{v1alpha1.FormerRecordAnnotation: "{}"}}}
		p.Status.Phase, p.Status.Donor = v1alpha1.PhaseStopping, &v1alpha1.DonorStatus{}
		p.Spec.Donor = v1alpha1.Donor{NodeName: "n", ProviderID: "azure:///n"}
		test.change(&p)
		if says := v1alpha1.EarlierCapture([]v1alpha1.Prototype{{}, p}); (says != "") != test.found ||
			test.found && !strings.Contains(says, "pool1-2026.03.14") {
			t.Errorf("%s: %q", name, says)
		}
	}
}
