package trial

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestRebootOfARecord: what the record says of a restart decides whether one is due, and whether the node is between two boots.
func TestRebootOfARecord(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		record       *v1alpha1.TrialReboot
		unwanted     bool
		due, between bool
	}{
		"nothing is decided":                     {due: true},
		"no one wants one":                       {unwanted: true},
		"decided, and the cloud was not asked":   {record: &v1alpha1.TrialReboot{Boot: "a"}, due: true, between: true},
		"the cloud has accepted it":              {record: &v1alpha1.TrialReboot{Boot: "a", AcceptedAt: &at}, between: true},
		"the credential may not":                 {record: &v1alpha1.TrialReboot{Boot: "a", Skipped: "denied"}},
		"decided, and then the owner forbade it": {record: &v1alpha1.TrialReboot{Boot: "a"}, unwanted: true, due: true, between: true},
	} {
		b := RebootOf(&v1alpha1.TrialRecord{Reboot: c.record}, !c.unwanted)
		if b.isDue() != c.due || b.isUnderWay() != c.between {
			t.Errorf("%s: due %t, between two boots %t; want %t, %t", name, b.isDue(), b.isUnderWay(), c.due, c.between)
		}
	}
}
