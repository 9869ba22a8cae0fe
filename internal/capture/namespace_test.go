package capture

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestPodsMoveToAnotherNamespace: a new configuration changes the namespace of generalize pods between two passes. The capture
// continues with its NodeOrder, creates no second NodeOrder, and leaves no objects in either namespace.
func TestPodsMoveToAnotherNamespace(t *testing.T) {
	ordered := 0
	for at := 1; ; at++ {
		s := inFull(t, func(s *testEnv) { s.podNamespace = ourspace })
		s.must(s.objects.Add(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GeneralizeServiceAccount, Namespace: ourspace}}))
		moved := false
		var before *v1alpha1.OrderRecord
		p := s.play(func(pass int) {
			if pass != at {
				return
			}
			s.podNamespace, moved = "", true
			record, err := v1alpha1.RecordOf(s.prototype())
			s.must(err)
			before = record.Order
			s.restart()
		})
		s.succeeded(p)
		if s.tracked("secrets", ourspace, s.podName()) != nil {
			t.Errorf("pass %d: the key is left behind", at)
		}
		after, err := v1alpha1.RecordOf(p)
		s.must(err)
		if before != nil && after.Order.UID != before.UID {
			t.Errorf("pass %d: order %s was made, and %s was there", at, after.Order.UID, before.UID)
		}
		if before != nil {
			ordered++
		}
		if t.Failed() || !moved {
			break
		}
	}
	if ordered == 0 {
		t.Error("the namespace changed behind no order")
	}
}
