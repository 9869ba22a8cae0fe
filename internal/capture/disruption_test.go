package capture

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/selection"
)

// TestDisruptionCostOfRemovedDonor: volumes and budgets are read only for a leaving node. Forbidden objects are ignored;
// other errors are returned.
func TestDisruptionCostOfRemovedDonor(t *testing.T) {
	for name, c := range map[string]struct {
		leaves bool
		answer func(kind, name string) error
		want   map[selection.MoveObstacle]int
		fails  bool
	}{
		"it leaves":  {leaves: true, want: map[selection.MoveObstacle]int{selection.LocalVolume: 1, selection.Alone: 1}},
		"it returns": {answer: func(string, string) error { t.Error("looked at what does not matter"); return nil }, want: map[selection.MoveObstacle]int{}},
		"it may not look": {leaves: true, answer: func(kind, name string) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, name, nil)
		}, want: map[selection.MoveObstacle]int{}},
		"nothing is there": {leaves: true, answer: func(kind, name string) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
		}, want: map[selection.MoveObstacle]int{}},
		"no answer":             {leaves: true, answer: func(string, string) error { return apierrors.NewServiceUnavailable("away") }, fails: true},
		"no budget is reported": {leaves: true, answer: only("poddisruptionbudgets"), want: map[selection.MoveObstacle]int{selection.LocalVolume: 1}},
		"no volume is reported": {leaves: true, answer: only("persistentvolumes"), want: map[selection.MoveObstacle]int{selection.Alone: 1}},
		"volumes do not come":   {leaves: true, answer: func(kind, name string) error { return unless(kind == "persistentvolumes") }, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			s.must(s.objects.Add(&policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}, Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1},
				Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "two"}}},
			}))
			s.must(
				s.objects.Add(
					&corev1.PersistentVolumeClaim{
						ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
						Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "disk"},
					},
				),
			)
			s.must(s.objects.Add(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/disk"}},
			}}))
			s.changePod("app-1", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{
					{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				}
			})
			s.changePod("app-2", func(p *corev1.Pod) { p.Labels = map[string]string{"name": "two"} })
			if c.answer != nil {
				s.kube.PrependReactor("*", "*", func(a kubetesting.Action) (bool, runtime.Object, error) {
					kind := a.GetResource().Resource
					if kind != "poddisruptionbudgets" && kind != "persistentvolumes" && kind != "persistentvolumeclaims" {
						return false, nil, nil
					}
					err := c.answer(kind, "x")
					return err != nil, nil, err
				})
			}
			got, err := s.engine.DisruptionCost(t.Context(), donorName, v1alpha1.DrainSettings{}, c.leaves)
			if (err != nil) != c.fails {
				t.Fatalf("it came to %v", err)
			}
			if diff := cmp.Diff(c.want, got.Hard); diff != "" && !c.fails {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !c.fails && got.Evictions != 3 {
				t.Errorf("%d evictions", got.Evictions)
			}
		})
	}
}

// only forbids one kind.
func only(kind string) func(string, string) error {
	return func(asked, name string) error {
		if asked != kind {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: asked}, name, nil)
	}
}

func unless(away bool) error {
	if away {
		return apierrors.NewServiceUnavailable("away")
	}
	return nil
}

// changePod edits one of the donor's pods.
func (s *testEnv) changePod(name string, edit func(*corev1.Pod)) {
	s.t.Helper()
	pod, err := s.objects.Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", name)
	s.must(err)
	changed := pod.(*corev1.Pod).DeepCopy()
	edit(changed)
	s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("pods"), changed, "default"))
}
