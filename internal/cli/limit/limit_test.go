package limit

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

var testNow = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// TestTrial compares each setting of trials and promotions with the API's limits.
func TestTrial(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Settings)
		says   string
	}{
		"as it is":         {func(*v1alpha1.Settings) {}, ""},
		"apart":            {func(s *v1alpha1.Settings) { s.Trial.Mode = v1alpha1.TrialApart }, ""},
		"no soak":          {func(s *v1alpha1.Settings) { s.Trial.Soak = &metav1.Duration{} }, ""},
		"a mode":           {func(s *v1alpha1.Settings) { s.Trial.Mode = "off" }, "--trial must be"},
		"who":              {func(s *v1alpha1.Settings) { s.Promotion.Mode = "Me" }, "--promotion must be"},
		"negative soak":    {func(s *v1alpha1.Settings) { s.Trial.Soak.Duration = -1 }, "--soak"},
		"no time to try":   {func(s *v1alpha1.Settings) { s.Trial.Timeout.Duration = 0 }, "--trial-timeout"},
		"no time to wait":  {func(s *v1alpha1.Settings) { s.Promotion.Timeout.Duration = -1 }, "--promotion-timeout"},
		"a name alone":     {func(s *v1alpha1.Settings) { s.Trial.IgnoreDaemonSets = []string{"agent"} }, "--trial-ignore-daemonset"},
		"a namespace only": {func(s *v1alpha1.Settings) { s.Trial.IgnoreDaemonSets = []string{"kube-system/"} }, "--trial-ignore-daemonset"},
		"a DaemonSet":      {func(s *v1alpha1.Settings) { s.Trial.IgnoreDaemonSets = []string{"kube-system/agent"} }, ""},
	} {
		settings := v1alpha1.Settings{}.Defaulted()
		c.change(&settings)
		err := Settings(settings)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, c.says)
		}
	}
}

func TestVersion(t *testing.T) {
	for version, valid := range map[string]bool{
		"": true, "2026.03.09": true, "2024.02.29": true, "2026.03.10": false, "2027.01.01": false,
		"2026.3.9": false, "2026.02.30": false, "2026.13.01": false, "v1": false, "2026.03.09 ": false, "26.03.09": false,
	} {
		if err := Version(version, testNow); (err == nil) != valid {
			t.Errorf("Version(%q) = %v, want valid %t", version, err, valid)
		}
	}
}
