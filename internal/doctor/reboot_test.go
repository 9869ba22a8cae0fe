package doctor

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestRebootsOfWorkshops: what reboots nodes is named if it would run on the workshops of a pool that is captured by copy.
func TestRebootsOfWorkshops(t *testing.T) {
	yes := true
	daemon := func(name, image string, change ...func(*corev1.PodSpec)) *appsv1.DaemonSet {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		set.Spec.Template.Spec = corev1.PodSpec{HostPID: true, Containers: []corev1.Container{{Image: image}}}
		for _, of := range change {
			of(&set.Spec.Template.Spec)
		}
		return set
	}
	without := func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: v1alpha1.TrialKey, Operator: corev1.NodeSelectorOpDoesNotExist}}}}}}}
	}
	for name, of := range map[string]struct {
		set     *appsv1.DaemonSet
		inPlace bool
		warns   bool
	}{
		"kured":                    {set: daemon("kured", "ghcr.io/kubereboot/kured:1.17.0"), warns: true},
		"the DaemonSet of --kured": {set: daemon("restarter", "example.com/own:1"), warns: true},
		"an image that installs":   {set: daemon("nightly", "example.com/team/node-patcher:2"), warns: true},
		"privileged": {set: daemon("update-agent", "example.com/agent", func(s *corev1.PodSpec) {
			s.HostPID = false
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		}), warns: true},
		"without rights":                {set: daemon("update-agent", "example.com/agent", func(s *corev1.PodSpec) { s.HostPID = false })},
		"kept off, as the page says":    {set: daemon("kured", "ghcr.io/kubereboot/kured:1.17.0", without)},
		"on other nodes only":           {set: daemon("kured", "kured", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"gpu": "yes"} })},
		"another word":                  {set: daemon("dispatcher", "example.com/kubereboot/cni:1")},
		"a pool that is copied nowhere": {set: daemon("kured", "kured"), inPlace: true},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, _ := newDoctorOf(t, memory.PoolSpec{}, memory.Config{Now: func() time.Time { return now }, NoCopy: of.inPlace})
			d.Kured = "kube-system/kured"
			if of.set.Name == "restarter" {
				d.Kured = "kube-system/restarter"
			}
			if err := d.Kube.(*fake.Clientset).Tracker().Add(of.set); err != nil {
				t.Fatal(err)
			}
			report, err := d.Examine(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			level, says := worst(report, CheckKured)
			if of.warns != (level == Warn) || of.warns && !strings.Contains(says, "DaemonSet kube-system/"+of.set.Name+" would run on workshops") {
				t.Errorf("%s: %s", level, says)
			}
		})
	}
}
