package print

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestAPlanShowsPendingPatches: an unknown number is never none.
func TestAPlanShowsPendingPatches(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	since := metav1.NewTime(now.Add(-26 * time.Hour))
	checked := v1alpha1.PatchesStatus{Node: "a", Since: &since}
	checked.CheckedAt, checked.Set = metav1.NewTime(now.Add(-2*time.Hour)), "set"
	with := func(change func(*v1alpha1.PatchesStatus)) *v1alpha1.PatchesStatus {
		s := checked.DeepCopy()
		change(s)
		return s
	}
	for _, c := range []struct {
		name   string
		status *v1alpha1.PatchesStatus
		want   string
	}{
		{"no policy with pioneers", nil, ""},
		{"no check yet", &v1alpha1.PatchesStatus{}, ""},
		{"none", &checked, "Pending patches: none, checked 2h00m ago on node a."},
		{"some", with(func(s *v1alpha1.PatchesStatus) {
			s.Packages, s.Security, s.CVECount, s.Names, s.CVEs = 2, 1, 1, []string{"openssl 1 to 2", "curl 1 to 2"}, []string{"CVE-2026-1"}
		}), "Pending patches: 2 packages, 1 for security, checked 2h00m ago on node a. First seen 1d2h ago.\n  openssl 1 to 2, " +
			"curl 1 to 2\n  The patches fix at least 1 CVE: CVE-2026-1"},
		{"unknown", with(func(s *v1alpha1.PatchesStatus) { s.Set, s.Reason, s.Message = "", "Locked", "dpkg is locked" }),
			"Pending patches: unknown. The last check, 2h00m ago on node a, had no answer (Locked): dpkg is locked."},
		{"unknown after some", with(func(s *v1alpha1.PatchesStatus) { s.Packages, s.Reason, s.Message = 1, "Locked", "dpkg is locked" }),
			"Pending patches: unknown. The last check, 2h00m ago on node a, had no answer (Locked): dpkg is locked.\nPending patches: 1 package, " +
				"0 for security, checked earlier. First seen 1d2h ago."},
	} {
		if got := strings.Join(patchLines(c.status, now), "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
