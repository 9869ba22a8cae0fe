package selection

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// donor returns a node that no rule refuses. The pool has a second such node.
func donor(change ...func(*Candidate)) Candidate {
	s := Candidate{Node: readyNode("n1"), Pool: "pool1", Peers: []corev1.Node{*readyNode("n2")}, OwnNode: "elsewhere", Prototype: "pool1-2026.01.02"}
	for _, c := range change {
		c(&s)
	}
	return s
}

func readyNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}, Annotations: map[string]string{}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Candidate)
		want   []string
	}{
		{"a good donor", func(*Candidate) {}, nil},
		{"a cordoned one is accepted: it is released cordoned", func(s *Candidate) { s.Node.Spec.Unschedulable = true }, nil},
		{"Windows by label", func(s *Candidate) { s.Node.Labels[corev1.LabelOSStable] = "windows" }, []string{cloud.SystemUnsupported}},
		{"Windows by its own word", func(s *Candidate) {
			delete(s.Node.Labels, corev1.LabelOSStable)
			s.Node.Status.NodeInfo.OperatingSystem = "windows"
		}, []string{cloud.SystemUnsupported}},
		{"Bottlerocket", func(s *Candidate) { s.Node.Status.NodeInfo.OSImage = "Bottlerocket OS 1.49.0 (aws-k8s-1.34)" }, []string{cloud.SystemUnsupported}},
		{"control plane", func(s *Candidate) { s.Node.Labels["node-role.kubernetes.io/control-plane"] = "" }, []string{ControlPlane}},
		{"etcd of RKE2", func(s *Candidate) { s.Node.Labels["node-role.kubernetes.io/etcd"] = "true" }, []string{ControlPlane}},
		{"control plane of old", func(s *Candidate) { s.Node.Labels["node-role.kubernetes.io/master"] = "" }, []string{ControlPlane}},
		{"being deleted", func(s *Candidate) { s.Node.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, []string{BeingDeleted}},
		{"the cluster autoscaler removes it", func(s *Candidate) {
			s.Node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
		}, []string{BeingDeleted}},
		{"Karpenter removes it", func(s *Candidate) {
			s.Node.Spec.Taints = []corev1.Taint{{Key: "dedicated"}, {Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
		}, []string{BeingDeleted}},
		{"a spot instance has its notice", func(s *Candidate) {
			s.Node.Spec.Taints = []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule}}
		}, []string{BeingDeleted}},
		{"a spot instance may get a notice", func(s *Candidate) {
			s.Node.Spec.Taints = []corev1.Taint{{Key: "aws-node-termination-handler/rebalance-recommendation", Effect: corev1.TaintEffectNoSchedule}}
		}, nil},
		{"the autoscaler only thinks of it", func(s *Candidate) {
			s.Node.Spec.Taints = []corev1.Taint{{Key: "DeletionCandidateOfClusterAutoscaler", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, nil},
		{"not Ready", func(s *Candidate) { s.Node.Status.Conditions[0].Status = corev1.ConditionUnknown }, []string{NotReady}},
		{"no word about Ready", func(s *Candidate) { s.Node.Status.Conditions = nil }, []string{NotReady}},
		{"its disk is nearly full", func(s *Candidate) {
			s.Node.Status.Conditions = append(s.Node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
		}, []string{DiskPressure}},
		{"its disk is well", func(s *Candidate) {
			s.Node.Status.Conditions = append(s.Node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse})
		}, nil},
		{"alone", func(s *Candidate) { s.Peers = nil }, []string{OnlyReadyNode}},
		{"the other is not Ready", func(s *Candidate) { s.Peers[0].Status.Conditions = nil }, []string{OnlyReadyNode}},
		{"the other is cordoned", func(s *Candidate) { s.Peers[0].Spec.Unschedulable = true }, []string{OnlyReadyNode}},
		{"the other is a donor", func(s *Candidate) { s.Peers[0].Annotations[v1alpha1.ReservationAnnotation] = "{}" }, []string{OnlyReadyNode}},
		{"our own node", func(s *Candidate) { s.OwnNode = "n1" }, []string{OwnNode}},
		{"reserved by another", func(s *Candidate) {
			s.Node.Annotations[v1alpha1.ReservationAnnotation] = `{"name":"pool1-2026.01.01","uid":"u"}`
		}, []string{Reserved}},
		{"reserved by ourselves", func(s *Candidate) {
			s.Node.Annotations[v1alpha1.ReservationAnnotation] = `{"name":"pool1-2026.01.02","uid":"u"}`
		}, nil},
		{"reserved by an unknown holder", func(s *Candidate) {
			s.Node.Annotations[v1alpha1.ReservationAnnotation] = `{"kind":"Pioneer","name":"pool1-2026.01.02","uid":"u"}`
		}, []string{Reserved}},
		{"an unreadable reservation", func(s *Candidate) { s.Node.Annotations[v1alpha1.ReservationAnnotation] = "?" }, []string{Reserved}},
		{"the node forbids disruption", func(s *Candidate) { s.Node.Annotations[v1alpha1.DoNotDisruptAnnotation] = "true" }, []string{DoNotDisrupt}},
		{"which may be allowed", func(s *Candidate) {
			s.Node.Annotations[v1alpha1.DoNotDisruptAnnotation], s.Disrupt = "true", true
		}, nil},
		{"a donor's own annotation says nothing", func(s *Candidate) {
			s.Node.Annotations[v1alpha1.DoNotDisruptAnnotation] = "true"
			s.Node.Annotations[v1alpha1.ReservationAnnotation] = `{"name":"pool1-2026.01.02","uid":"u"}`
		}, nil},
		{"another of three is cordoned", func(s *Candidate) {
			s.Peers = append(s.Peers, *readyNode("n3"))
			s.Peers[0].Spec.Unschedulable = true
		}, []string{TooManyUnavailable}},
		{"another of three is not Ready", func(s *Candidate) {
			s.Peers = append(s.Peers, *readyNode("n3"))
			s.Peers[0].Status.Conditions = nil
		}, []string{TooManyUnavailable}},
		{"two of three may be away", func(s *Candidate) {
			s.Peers, s.MaxUnavailable = append(s.Peers, *readyNode("n3")), intstr.FromString("34%")
			s.Peers[0].Spec.Unschedulable = true
		}, nil},
		{"every reason at once", func(s *Candidate) {
			s.Node.Labels[corev1.LabelOSStable], s.Node.Status.Conditions, s.Peers = "windows", nil, nil
		}, []string{cloud.SystemUnsupported, NotReady, OnlyReadyNode}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, r := range Refusals(donor(c.change)) {
				got = append(got, r.Reason)
				if !strings.Contains(r.Message, "n1") || !strings.Contains(r.Message, ":") {
					t.Errorf("%s does not name the node and a remedy: %q", r.Reason, r.Message)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefusalsNameRemedy: the obstacle names the node, the remedy stands alone, and the message has both.
func TestRefusalsNameRemedy(t *testing.T) {
	refusal := refuse(DiskPressure, "make room there", "node %s has hardly any room", "node-1")
	if refusal.What() != "node node-1 has hardly any room" || refusal.Remedy != "make room there" {
		t.Errorf("it is made of %q and %q", refusal.What(), refusal.Remedy)
	}
	if refusal.Message != "node node-1 has hardly any room: make room there" || refusal.Reason != DiskPressure {
		t.Errorf("it says %+v", refusal)
	}
}
