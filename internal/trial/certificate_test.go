package trial

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestFirstToEnd: the check Disk judges the certificate that ends first, unless the settings ignore certificates.
func TestFirstToEnd(t *testing.T) {
	early, late := time.Unix(1e9, 0), time.Unix(2e9, 0)
	credentials := []v1alpha1.Credential{
		{Path: "/late", NotAfter: metav1.NewTime(late)}, {Path: "/early", NotAfter: metav1.NewTime(early)},
		{Path: "/later", NotAfter: metav1.NewTime(late.Add(1))},
	}
	for name, test := range map[string]struct {
		of      []v1alpha1.Credential
		ignored []string
		want    Certificate
	}{
		"the first":   {credentials, []string{"certificates"}, Certificate{"/early", early, 3, false}},
		"none":        {nil, nil, Certificate{}},
		"ignored":     {credentials, []string{"clock", "certificate"}, Certificate{"/early", early, 3, true}},
		"all ignored": {credentials, []string{"cert*"}, Certificate{"/early", early, 3, true}},
	} {
		if got := FirstToEnd(test.of, test.ignored, 3); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
