package capture

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/node/kured"
)

// TestEndlessWaits: a wait that a person must end is Stalled with a command. The condition goes with the wait.
func TestEndlessWaits(t *testing.T) {
	ahead := func(status metav1.ConditionStatus) []v1alpha1.Prototype {
		p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "ahead"}, Spec: v1alpha1.PrototypeSpec{Donor: v1alpha1.Donor{NodeName: "held"}}}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: status, Reason: "Denied"}}
		return []v1alpha1.Prototype{p}
	}
	heldBy := func(kind v1alpha1.HolderKind) *corev1.Node {
		r := v1alpha1.Reservation{Holder: v1alpha1.Holder{Kind: kind, Name: "other", UID: "other"}}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "donor", Annotations: map[string]string{v1alpha1.ReservationAnnotation: string(text)}}}
	}
	for name, test := range map[string]struct {
		w         pass
		why       plan.Reason
		reason    string
		mustHaves []string
	}{
		"a capture ahead that waits for a person": {pass{preflight: admissionObjects{activeCaptures: ahead(metav1.ConditionTrue)}}, plan.ForTurn, CaptureAheadStalled, []string{"holds node held", "(Denied)", "`kamino describe ahead`"}},
		"a capture ahead that works":              {pass{preflight: admissionObjects{activeCaptures: ahead(metav1.ConditionFalse)}}, plan.ForTurn, "", nil},
		"a lock of kured whose node exists":       {pass{preflight: admissionObjects{kured: kured.Lock{Node: "peer"}, activeCaptures: ahead(metav1.ConditionTrue)}}, plan.ForTurn, "", nil},
		"a lock of kured whose node is gone":      {pass{preflight: admissionObjects{kured: kured.Lock{Node: "gone", Release: "kubectl annotate"}}}, plan.ForNeighbour, KuredLockStale, []string{"`kubectl annotate`"}},
		"a holder of an unknown kind":             {pass{donor: donorObjects{node: heldBy("Backup"), otherHolder: "backup other"}}, plan.ForHolder, HolderUnattended, []string{"by backup other", "`kamino return-node donor`"}},
		"another capture of the donor":            {pass{donor: donorObjects{node: heldBy(v1alpha1.HolderPrototype)}}, plan.ForHolder, "", nil},
		"another wait":                            {pass{preflight: admissionObjects{activeCaptures: ahead(metav1.ConditionTrue)}}, plan.ForProof, "", nil},
	} {
		w := test.w
		w.p = &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}, Spec: v1alpha1.PrototypeSpec{Donor: v1alpha1.Donor{NodeName: "donor"}}}
		reportEndlessWait(&w, plan.Decision{Do: plan.Wait, Why: test.why}, metav1.Now().Time)
		is := meta.FindStatusCondition(w.p.Status.Conditions, v1alpha1.ConditionStalled)
		switch {
		case test.reason == "" && is != nil:
			t.Errorf("%s: %+v", name, is)
		case test.reason != "" && (is == nil || is.Reason != test.reason):
			t.Errorf("%s: %+v, want %s", name, is, test.reason)
		}
		for _, text := range test.mustHaves {
			if is != nil && !strings.Contains(is.Message, text) {
				t.Errorf("%s: %q lacks %q", name, is.Message, text)
			}
		}
		clearStalled(w.p)
		reportEndlessWait(&w, plan.Decision{Do: plan.Cordon}, metav1.Now().Time)
		if is := meta.FindStatusCondition(w.p.Status.Conditions, v1alpha1.ConditionStalled); is != nil {
			t.Errorf("%s: after the wait, the condition is %+v", name, is)
		}
	}
}
