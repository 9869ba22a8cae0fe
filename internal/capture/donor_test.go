package capture

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestDonorTimeAfterALostStatus: the step of the reservation only refines the second of the reservation. A later controller may
// begin the step again.
func TestDonorTimeAfterALostStatus(t *testing.T) {
	for began, want := range map[time.Duration]time.Duration{
		300 * time.Millisecond: 300 * time.Millisecond, 5 * time.Minute: 0, -5 * time.Minute: 0,
	} {
		w := &pass{p: &v1alpha1.Prototype{}, donor: donorObjects{reservation: &v1alpha1.Reservation{ReservedAt: metav1.NewTime(noon)}}}
		w.facts.Hold.Lock = plan.Ours
		w.p.Status.Steps = []v1alpha1.Step{{Phase: v1alpha1.PhaseReserving, StartedAt: metav1.NewMicroTime(noon.Add(began))}}
		reportDonor(w, noon.Add(time.Hour))
		if d := w.p.Status.Donor; d == nil || d.ReservedAt.Sub(noon) != want {
			t.Errorf("the step began %s after the reservation: %+v, want %s", began, d, want)
		}
	}
}

func (s *testEnv) node(name string, id cloud.InstanceID) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("node-" + name), Labels: map[string]string{corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{"theirs": "stays", v1alpha1.DoNotDisruptAnnotation: "false"},
	}}
	if s.apart {
		n.Annotations[memory.PoolAnnotation] = "pool1"
	}
	n.Spec.ProviderID = string(id)
	n.Status.NodeInfo.BootID = s.cloud.BootID(id)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func appPod(name string) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "rs", Controller: &yes}}}}
	pod.Spec.NodeName = donorName
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// runKubelet lets the donor's kubelet speak: Ready under the boot that runs, or nothing heard.
func (s *testEnv) runKubelet() {
	n, _ := s.tracked("nodes", "", s.donorNode).(*corev1.Node)
	machine := s.cloud.World().Instance(s.donor)
	if machine.ID == "" {
		s.runNone(n)
		return
	}
	running := machine.Power == cloud.PowerRunning && (machine.Boots == 1 || !s.hung)
	if n == nil {
		if running && machine.Boots > 1 {
			fresh := s.node(s.donorNode, s.donor)
			fresh.Annotations, fresh.UID = nil, "node-made-again"
			s.must(s.objects.Create(corev1.SchemeGroupVersion.WithResource("nodes"), fresh, ""))
		}
		return
	}
	before := n.DeepCopy()
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	if running {
		n.Status.Conditions[0].Status, n.Status.NodeInfo.BootID = corev1.ConditionTrue, machine.BootID
	}
	if !equality.Semantic.DeepEqual(before.Status, n.Status) {
		s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	}
}

// runNone handles a Node without an instance: the kubelet is silent, and a controller of the cloud may delete the Node.
func (s *testEnv) runNone(n *corev1.Node) {
	switch {
	case n == nil:
	case s.tidy:
		s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", n.Name))
	case n.Status.Conditions[0].Status != corev1.ConditionUnknown:
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	}
}

// runOthers lets the pool's new instances join, each with its own Node.
func (s *testEnv) runOthers() {
	if s.lonely {
		return
	}
	for _, m := range s.cloud.World().Instances {
		name := nodeNameOf(m.ID)
		if m.ID == s.donor || m.ID == s.peer || m.ID == s.first || m.Power != cloud.PowerRunning || s.tracked("nodes", "", name) != nil {
			continue
		}
		n := s.node(name, m.ID)
		n.Annotations, n.CreationTimestamp = nil, metav1.NewTime(s.clock.Now())
		s.must(s.objects.Create(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
	}
}
