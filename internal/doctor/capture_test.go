package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// findings of a check, as level, reason and message.
func findings(r Report, check string) (list []string) {
	for _, f := range r.Findings {
		if f.Check == check {
			list = append(list, strings.TrimSpace(string(f.Level)+" "+f.Reason)+": "+f.Message)
		}
	}
	return list
}

func (d *Doctor) change(t *testing.T, name string, change func(*corev1.Node)) {
	t.Helper()
	n, err := d.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	change(n)
	if _, err := d.Kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func bare(t *testing.T, d *Doctor, node string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bare-" + node}, Spec: corev1.PodSpec{NodeName: node}}
	if err := d.Kube.(*fake.Clientset).Tracker().Add(pod); err != nil {
		t.Fatal(err)
	}
}

// TestRefusalsEqualCapture: the messages equal the engine's messages about the same capture.
func TestRefusalsEqualCapture(t *testing.T) {
	for name, spoil := range map[string]func(*Doctor, *memory.Cloud, cloud.PoolID){
		"a node that is not Ready": func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			for _, node := range []string{"a", "b"} {
				d.change(t, node, func(n *corev1.Node) { n.Status.Conditions = nil })
			}
		},
		"a pool of one": func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			d.change(t, "b", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		},
		"an upgrade policy": func(_ *Doctor, memoryCloud *memory.Cloud, pool cloud.PoolID) { memoryCloud.SetUpgrades(pool, true) },
		"a quota": func(_ *Doctor, memoryCloud *memory.Cloud, _ cloud.PoolID) {
			memoryCloud.SetQuota(memory.Quota{Images: 1})
		},
	} {
		d, memoryCloud, pool := newDoctor(t, memory.PoolSpec{})
		memoryCloud.AddVersion(pool, memory.VersionSpec{Version: "2026.03.01"})
		spoil(d, memoryCloud, pool)
		report := examine(t, d)
		c, err := observe(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.view(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		gathered, err := d.Case(t.Context(), p.preview(p.likely()[0]), c.seen)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, r := range gathered.Judge().Refusals {
			want = append(want, "fail "+r.Reason+": "+r.What())
		}
		if want == nil {
			want = []string{"ok: node a can be captured now, with a trial node outside the pool"}
		}
		got := findings(report, CheckPool)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestAnotherNodeMayDo: a refusal about one node is no problem of the pool while another node is accepted; otherwise doctor
// reports the first node's reasons.
func TestAnotherNodeMayDo(t *testing.T) {
	d, _, _ := newDoctor(t, memory.PoolSpec{})
	bare(t, d, "a")
	if got := findings(examine(t, d), CheckPool); !slices.Equal(got, []string{"ok: node b can be captured now, with a trial node outside the pool"}) {
		t.Errorf("one of two: %q", got)
	}
	bare(t, d, "b")
	if got := findings(examine(t, d), CheckPool); len(got) != 1 || !strings.HasPrefix(got[0], "fail UnmanagedPods: node a cannot be drained: ") {
		t.Errorf("both: %q", got)
	}
	d, _, _ = newDoctor(t, memory.PoolSpec{})
	d.change(t, "a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	if got := findings(examine(t, d), CheckPool); len(got) != 1 || !strings.HasPrefix(got[0], "fail OnlyReadyNode: node b is the only Ready") {
		t.Errorf("a cordoned node is not tried first: %q", got)
	}
}

// TestACaptureAtWorkIsNoTrouble of its pool, although no other capture may begin.
func TestACaptureAtWorkIsNoTrouble(t *testing.T) {
	d, _, pool := newDoctor(t, memory.PoolSpec{})
	d.change(t, "a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	asked := d.Case
	d.Case = func(ctx context.Context, p *v1alpha1.Prototype, seen *membership.Cluster) (*admission.Case, error) {
		gathered, err := asked(ctx, p, seen)
		if err == nil {
			other := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "other", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
			other.Status.Phase = v1alpha1.PhaseDraining
			gathered.Others = admission.Found([]admission.OtherCapture{{Prototype: other, Pool: pool}})
		}
		return gathered, err
	}
	if got := findings(examine(t, d), CheckPool); !slices.Equal(got,
		[]string{"ok: the only obstacle to a capture of node b: prototype other is capturing pool pool1"}) {
		t.Errorf("%q", got)
	}
}

// TestALaterVersionOfTodayIsNoFailure: doctor must not advise a rollback of a good version. A version of tomorrow is a failure.
func TestALaterVersionOfTodayIsNoFailure(t *testing.T) {
	for version, want := range map[string]string{
		"2026.03.1402": "ok: the only obstacle to a capture of node a: the recipe of pool pool1 names version 2026.03.1402, newer than 2026.03.14",
		"2026.03.15":   "fail VersionOutOfOrder: the recipe of pool pool1 names version 2026.03.15, newer than 2026.03.14",
	} {
		d, memoryCloud, pool := newDoctor(t, memory.PoolSpec{})
		memoryCloud.AddVersion(pool, memory.VersionSpec{Version: version})
		memoryCloud.ChangeRecipe(pool, string(pool)+"/versions/"+version)
		if got := findings(examine(t, d), CheckPool); !slices.Equal(got, []string{want}) {
			t.Errorf("version %s: %q, want %q", version, got, want)
		}
	}
}

// TestAMissingActionHasTheRemedyOfItsCloud.
func TestAMissingActionHasTheRemedyOfItsCloud(t *testing.T) {
	d, memoryCloud, _ := newDoctor(t, memory.PoolSpec{})
	for _, about := range registry.All() {
		if d.About = about; about.Name == "aws" {
			break
		}
	}
	memoryCloud.Forbid("EnsureSnapshot")
	var remedies []string
	for _, f := range examine(t, d).Findings {
		if f.Check == CheckPermissions {
			remedies = append(remedies, f.Remedy)
		}
	}
	if want := []string{"allow the action in the credential's IAM policy"}; !slices.Equal(remedies, want) {
		t.Errorf("%q, want %q", remedies, want)
	}
}

// TestMissingInstallation is reported once, and not after the finding that nothing is installed.
func TestMissingInstallation(t *testing.T) {
	for _, served := range []bool{true, false} {
		d, _, _ := newDoctor(t, memory.PoolSpec{})
		if err := d.Kube.CoreV1().ServiceAccounts("theirs").Delete(t.Context(), v1alpha1.GeneralizeServiceAccount, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		d.Served = func(context.Context, string) (bool, error) { return served, nil }
		report := examine(t, d)
		reported := slices.ContainsFunc(report.Findings, func(f Finding) bool {
			return f.Level == Warn && f.Check == CheckInstallation && f.Reason == admission.NotInstalled &&
				strings.Contains(f.Message, "service account kamino-generalize not found")
		})
		if reported != served || report.Failures > 0 || report.Warnings != 1 {
			t.Errorf("served %t: %+v", served, report.Findings)
		}
	}
}

// TestFailedLookHidesNoObstacle: other obstacles are still reported.
func TestFailedLookHidesNoObstacle(t *testing.T) {
	d, _, _ := newDoctor(t, memory.PoolSpec{})
	bare(t, d, "a")
	bare(t, d, "b")
	asked := d.Case
	d.Case = func(ctx context.Context, p *v1alpha1.Prototype, seen *membership.Cluster) (*admission.Case, error) {
		gathered, err := asked(ctx, p, seen)
		gathered.ClockAhead = admission.Unread[time.Duration](errors.New("the lease is away"))
		return gathered, err
	}
	got := findings(examine(t, d), CheckPool)
	if len(got) != 2 || !strings.HasPrefix(got[0], "fail UnmanagedPods") || got[1] != "warn: unknown whether node a can be captured: the lease is away" {
		t.Errorf("%q", got)
	}
	d.Case = func(context.Context, *v1alpha1.Prototype, *membership.Cluster) (*admission.Case, error) {
		return nil, errors.New("the node is away")
	}
	if got := findings(examine(t, d), CheckPool); !slices.Equal(got, []string{"warn: unknown whether node a can be captured: the node is away"}) {
		t.Errorf("%q", got)
	}
}

// TestOwnCaptureIsNoObstacle: a running capture of today, which holds a node, is no fault of the pool.
func TestOwnCaptureIsNoObstacle(t *testing.T) {
	d, _, pool := newDoctor(t, memory.PoolSpec{})
	running := v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Pool: "pool1", PoolID: string(pool), Version: imageversion.Of(now), Donor: v1alpha1.Donor{NodeName: "a"}}}
	running.Name, running.UID, running.CreationTimestamp = v1alpha1.PrototypeName("pool1", running.Spec.Version, 1), "u", metav1.NewTime(now)
	running.Status.Phase = v1alpha1.PhaseDraining
	d.Prototypes = func(context.Context) ([]v1alpha1.Prototype, error) { return []v1alpha1.Prototype{running}, nil }
	d.change(t, "a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	r := examine(t, d)
	if got := findings(r, CheckPool); r.Failures > 0 || len(got) != 1 || !strings.Contains(got[0], running.Name+" is capturing pool pool1") {
		t.Errorf("%d failures, %v", r.Failures, got)
	}
}
