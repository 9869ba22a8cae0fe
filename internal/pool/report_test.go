package pool

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// TestChanges compares the newest versions, each with the version before. Versions without known differences are left out.
func TestChanges(t *testing.T) {
	h := history.History{Pool: "pool1"}
	for i, kernel := range []string{"6.5", "6.4", "6.4", "6.2", "6.1"} {
		h.Versions = append(h.Versions, history.Version{Version: fmt.Sprintf("2026.03.%02d", 9-i), Kernel: kernel})
	}
	want := map[string]string{
		"2026.03.09": "compared with version 2026.03.08: kernel 6.4 -> 6.5",
		"2026.03.07": "compared with version 2026.03.06: kernel 6.2 -> 6.4",
	}
	if diff := cmp.Diff(want, Changes(h, nil)); diff != "" {
		t.Error(diff)
	}
	if got := Changes(history.History{}, nil); len(got) > 0 {
		t.Errorf("without versions: %v", got)
	}
}

// TestFailedJoin: a command looks once. A node has failed if it was already overdue some minutes ago.
func TestFailedJoin(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	made := time.Now()
	s.memory.AddInstance(pool2, "late")
	for after, want := range map[time.Duration]int{10 * time.Minute: 0, 17 * time.Minute: 0, 20 * time.Minute: 1} {
		s.Now = func() time.Time { return made.Add(after) }
		p, err := s.Named(t.Context(), "pool2")
		if err != nil {
			t.Fatal(err)
		}
		facts, err := s.ReportFacts(t.Context(), p, made.Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if builds := report.Of(facts).Builds; len(builds) != 1 || builds[0].Nodes != 1 || builds[0].Failed != want {
			t.Errorf("after %s: %+v, want %d failed", after, builds, want)
		}
	}
}

// TestFailedJoinOfAPolicy: the times of the policy count, and what its controller has judged stays.
func TestFailedJoinOfAPolicy(t *testing.T) {
	s := newTestEnv(t, interceptor.Funcs{})
	made := time.Now()
	late := s.memory.AddInstance(pool2, "late")
	seen, err := s.memory.Instance(t.Context(), late)
	if err != nil {
		t.Fatal(err)
	}
	tally := func(after time.Duration) history.Joins {
		t.Helper()
		s.Now = func() time.Time { return made.Add(after) }
		p, err := s.Named(t.Context(), "pool2")
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.History(t.Context(), p, 0)
		if err != nil {
			t.Fatal(err)
		}
		return *h.Find("2026.03.01").Joins
	}
	if got := tally(3 * time.Minute); got.Failed != 0 || got.Waiting == 0 {
		t.Errorf("without a policy: %+v", got)
	}
	policy := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "quick"}}
	policy.Spec.Rollback.JoinTimeout.Duration = time.Minute
	policy.Status.Pools = []v1alpha1.PoolStatus{{Name: "pool2", ID: string(pool2), JoinHealth: &v1alpha1.JoinHealthStatus{Version: "2026.03.01"}}}
	if err := s.Cluster.Client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if got := tally(3 * time.Minute); got.Failed != 1 {
		t.Errorf("with a limit of a minute: %+v", got)
	}
	policy.Spec.Rollback.JoinTimeout.Duration = 0
	policy.Status.Pools[0].JoinHealth.Joins = []v1alpha1.JoinStatus{
		{Instance: string(late), RunningSince: metav1.NewTime(seen.CreatedAt), Outcome: "Failed", Message: "the instance has run without a Node"},
		{Instance: string(late) + "-removed", RunningSince: metav1.NewTime(seen.CreatedAt), Outcome: "Failed"},
	}
	if err := s.Cluster.Client.Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if got := tally(3 * time.Minute); got.Failed != 1 {
		t.Errorf("judged before: %+v", got)
	}
}

// TestInterrupted: the first patch or capture since the creation of a node counts.
func TestInterrupted(t *testing.T) {
	at := func(minutes int) time.Time { return time.Unix(1770000000, 0).Add(time.Duration(minutes) * time.Minute) }
	n := joinhealth.Node{Name: "n", Running: at(0)}
	of := func(node string, minutes int) v1alpha1.Prototype {
		p := v1alpha1.Prototype{}
		reserved := metav1.NewMicroTime(at(minutes))
		p.Spec.Donor.NodeName, p.Status.Donor = node, &v1alpha1.DonorStatus{ReservedAt: &reserved}
		return p
	}
	patched := of("n", 9)
	patched.Status.Patch = &v1alpha1.PatchStatus{StartedAt: metav1.NewTime(at(4))}
	copied := of("n", 3)
	copied.Spec.Settings.Donor.Method = v1alpha1.MethodCopy
	for name, test := range map[string]struct {
		times    patchTimes
		captures []v1alpha1.Prototype
		want     time.Time
	}{
		"never":                     {patchTimes{}, []v1alpha1.Prototype{of("other", 3)}, time.Time{}},
		"a patch":                   {patchTimes{patched: at(5)}, nil, at(5)},
		"a patch that waits":        {patchTimes{patched: at(5), pending: at(3)}, nil, at(3)},
		"a capture before a patch":  {patchTimes{patched: at(5)}, []v1alpha1.Prototype{of("n", 2)}, at(2)},
		"a donor that serves":       {patchTimes{patched: at(5)}, []v1alpha1.Prototype{copied}, at(5)},
		"a pioneer":                 {patchTimes{}, []v1alpha1.Prototype{patched}, at(4)},
		"an instance of that name":  {patchTimes{}, []v1alpha1.Prototype{of("n", -5)}, time.Time{}},
		"a patch of the image only": {patchTimes{patched: at(-60)}, nil, time.Time{}},
	} {
		if got := test.times.interrupted(n, test.captures); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestAReturnedDonorHasNoJoinTime: the time until a donor or a patched node was Ready again is no time of its join. The time of a look
// before the interruption stays.
func TestAReturnedDonorHasNoJoinTime(t *testing.T) {
	at := func(minutes int) time.Time { return time.Unix(1770000000, 0).Add(time.Duration(minutes) * time.Minute) }
	reserved := metav1.NewMicroTime(at(10))
	capture := v1alpha1.Prototype{}
	capture.Spec.Donor.NodeName, capture.Status.Donor = "donor", &v1alpha1.DonorStatus{ReservedAt: &reserved}
	p := &Pool{Prototypes: []v1alpha1.Prototype{capture}, patches: map[string]patchTimes{"patched": {patched: at(4)}}}
	var nodes []joinhealth.Node
	for _, name := range []string{"donor", "patched", "other", "measured"} {
		nodes = append(nodes, joinhealth.Node{Instance: cloud.InstanceID(name), Name: name, Running: at(0)})
	}
	nodes[3].Name = "donor" // as the donor, with the time of an earlier look
	joins := []joinhealth.Join{
		{Instance: "donor", Running: at(0), Took: 13 * time.Minute}, {Instance: "patched", Running: at(0), Took: 5 * time.Minute},
		{Instance: "other", Running: at(0), Took: 13 * time.Minute}, {Instance: "measured", Running: at(0), Took: time.Minute},
		{Instance: "removed", Running: at(0), Took: 13 * time.Minute},
	}
	p.forgetReboots(joins, nodes)
	for i, want := range []time.Duration{0, 0, 13 * time.Minute, time.Minute, 13 * time.Minute} {
		if joins[i].Took != want {
			t.Errorf("%s: %s, want %s", joins[i].Instance, joins[i].Took, want)
		}
	}
}

// TestPatchTimes: a patch is active unless the node still waits for a reboot. A reboot by another client than kured leaves the
// annotation of kured.
func TestPatchTimes(t *testing.T) {
	noon := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	at := func(hour int) string { return noon.Add(time.Duration(hour) * time.Hour).Format(time.RFC3339) }
	for name, test := range map[string]struct {
		annotations     map[string]string
		pending, active int // hours after noon; zero: none
	}{
		"no patch":          {},
		"unreadable":        {map[string]string{v1alpha1.PatchedAtAnnotation: "yesterday"}, 0, 0},
		"by Kamino":         {map[string]string{v1alpha1.PatchedAtAnnotation: at(1)}, 0, 1},
		"by both":           {map[string]string{v1alpha1.PatchedAtAnnotation: at(1), v1alpha1.KuredRebootNeededAnnotation: at(2)}, 0, 2},
		"before the reboot": {map[string]string{v1alpha1.KuredRebootNeededAnnotation: at(6), v1alpha1.KuredRebootInProgressAnnotation: at(6)}, 6, 0},
		"before the reboot, after another patch": {
			map[string]string{v1alpha1.PatchedAtAnnotation: at(1), v1alpha1.KuredRebootNeededAnnotation: at(6), v1alpha1.RebootPendingAnnotation: "true"}, 6, 1,
		},
		"without a need for a reboot": {map[string]string{v1alpha1.KuredRebootNeededAnnotation: at(6), v1alpha1.RebootPendingAnnotation: "false"}, 0, 6},
		"after a reboot by another client": {map[string]string{v1alpha1.KuredRebootNeededAnnotation: at(2),
			v1alpha1.KuredRebootInProgressAnnotation: at(2)}, 0, 2},
	} {
		n := node("n", "", corev1.ConditionTrue)
		n.Annotations = test.annotations
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(4 * time.Hour)) // the last reboot
		p := newPool("pool1")
		p.measure(n)
		hour := func(t time.Time) int {
			if t.IsZero() {
				return 0
			}
			return int(t.Sub(noon) / time.Hour)
		}
		if got := p.patches["n"]; hour(got.pending) != test.pending || hour(got.patched) != test.active {
			t.Errorf("%s: pending since hour %d, active since hour %d; want %d and %d", name, hour(got.pending), hour(got.patched), test.pending, test.active)
		}
	}
}
