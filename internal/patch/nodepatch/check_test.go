package nodepatch

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// checkStage is a stage with a check of a pool.
type checkStage struct {
	*testEnv
	check CheckTask
}

func newCheckStage(t *testing.T) *checkStage {
	s := &checkStage{testEnv: newTestEnv(t)}
	s.check = CheckTask{
		Holder: v1alpha1.Holder{Kind: v1alpha1.HolderPolicy, Name: "all", UID: "policy"}, Pool: "pools/a", Node: nodeName,
		Patches: v1alpha1.OrderPatches{Patches: v1alpha1.PatchSecurity, Hold: patch.DefaultHold()},
	}
	s.report.Method, s.report.After, s.report.Installed = patch.Check, s.report.Before, nil
	s.report.Pending = []patch.Change{
		{Name: "curl", From: "1", To: "2"},
		{Name: "openssl", From: "1", To: "2", Security: true, CVEs: []string{"CVE-2026-1", "CVE-2026-2"}},
	}
	return s
}

// objects returns the NodeOrder and the pod of the check; nil without them.
func (s *checkStage) objects() (*v1alpha1.NodeOrder, *corev1.Pod) {
	s.Helper()
	order := &v1alpha1.NodeOrder{}
	if err := s.orders.Get(s.Context(), client.ObjectKey{Namespace: s.p.Namespace, Name: checkName(s.check)}, order); err != nil {
		if !apierrors.IsNotFound(err) {
			s.Fatal(err)
		}
		order = nil
	}
	object, err := s.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), s.p.Namespace, checkName(s.check))
	if apierrors.IsNotFound(err) {
		return order, nil
	}
	s.must(err)
	return order, object.(*corev1.Pod).DeepCopy()
}

// answer plays the pod for a minute.
func (s *checkStage) answer() {
	s.Helper()
	s.now = s.now.Add(time.Minute)
	order, pod := s.objects()
	if order == nil || pod == nil || s.report == nil || pod.Status.Phase != "" || pod.Annotations[v1alpha1.OrderAnnotation] != string(order.UID) {
		return
	}
	s.sign(order, pod)
}

// end makes passes to the end of the check.
func (s *checkStage) end() *Checked {
	s.Helper()
	for range 100 {
		var got *Checked
		s.pass(func() (err error) {
			got, err = s.p.Check(s.Context(), s.check)
			return err
		})
		if got != nil {
			return got
		}
		s.answer()
	}
	s.Fatal("the check does not end")
	return nil
}

// wantPending checks the annotation of the node, and that nothing is left.
func (s *checkStage) wantPending(want func(v1alpha1.PendingPatches) bool) {
	s.Helper()
	if order, pod := s.objects(); order != nil || pod != nil {
		s.Errorf("the order or the pod is left: %v, %v", order, pod)
	}
	var got v1alpha1.PendingPatches
	text := s.node().Annotations[v1alpha1.PatchesPendingAnnotation]
	if err := json.Unmarshal([]byte(text), &got); err != nil || !want(got) {
		s.Errorf("the annotation is %s (%v)", text, err)
	}
}

func two(p v1alpha1.PendingPatches) bool {
	return p.Packages == 2 && p.Security == 1 && p.CVECount == 2 && p.Reason == "" && p.Set != "" && len(p.Names) == 2 &&
		p.Names[0] == "openssl 1 to 2" && p.CVEs[0] == "CVE-2026-2"
}

func TestACheckReportsPendingPatches(t *testing.T) {
	s := newCheckStage(t)
	got := s.end()
	if got.Node != nodeName || len(got.Report.Pending) != 2 {
		t.Errorf("got %+v", got)
	}
	s.wantPending(two)
	if n := s.node(); n.Spec.Unschedulable || n.Annotations[v1alpha1.RebootPendingAnnotation] != "" {
		t.Errorf("the check changed the node: %+v", n)
	}
}

// TestEachLostWriteOfACheck loses each write before or after its effect, by an error and by the end of the process. The
// check ends all the same, and leaves nothing.
func TestEachLostWriteOfACheck(t *testing.T) {
	memory.Courses{Least: 6, Play: func(t *testing.T, schedule *memory.Schedule) {
		s := newCheckStage(t)
		s.schedule = schedule
		s.end()
		s.wantPending(two)
	}}.LoseEach(t)
}

// TestACheckWithoutAnAnswer: trouble of any kind gives a reason, never an empty set of patches.
func TestACheckWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name, says string
		trouble    func(*checkStage)
	}{
		{"the pod fails", "ended without a report: no such image", func(s *checkStage) {
			_, pod := s.objects()
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "no such image"}}}}
			s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace))
		}},
		{"the pod hangs", "has not reported within 30m0s", func(s *checkStage) { s.report = nil }},
		{"the key is forged", "has not reported within 30m0s", func(s *checkStage) { s.forged = true }},
		{"the node reboots", "rebooted during the check", func(s *checkStage) {
			s.change(func(n *corev1.Node) { n.Status.NodeInfo.BootID = bootID(2) })
		}},
		{"the mirror is dead", "repository main was not read: no route to host", func(s *checkStage) {
			s.report.Repositories[0].Read, s.report.Repositories[0].Problem, s.report.Pending = false, "no route to host", nil
		}},
		{"the order is refused", "held back", func(s *checkStage) {
			s.report.Failure = &patch.Failure{Reason: patch.HeldPackage, Message: "kubelet is held back"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newCheckStage(t)
			if got, err := s.p.Check(t.Context(), s.check); got != nil || err != nil {
				t.Fatalf("got %v, %v", got, err)
			}
			c.trouble(s)
			if got := s.end(); got.Report.Complete() {
				t.Errorf("the report is complete: %+v", got.Report)
			}
			s.wantPending(func(p v1alpha1.PendingPatches) bool {
				return p.Reason != "" && p.Set == "" && strings.Contains(p.Message, c.says)
			})
		})
	}
}

// TestACheckOfADeletedNode ends with a reason, and leaves nothing.
func TestACheckOfADeletedNode(t *testing.T) {
	s := newCheckStage(t)
	if _, err := s.p.Check(t.Context(), s.check); err != nil {
		t.Fatal(err)
	}
	s.must(s.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", nodeName))
	s.check.Node = "another"
	if got := s.end(); got.Node != nodeName || got.Report.Failure == nil {
		t.Errorf("got %+v", got)
	}
	if order, pod := s.objects(); order != nil || pod != nil {
		t.Errorf("the order or the pod is left: %v, %v", order, pod)
	}
}

// TestTheAnnotationOfAnEarlierCheckGoes: the newest check alone is true.
func TestTheAnnotationOfAnEarlierCheckGoes(t *testing.T) {
	s := newCheckStage(t)
	earlier := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "earlier", Annotations: map[string]string{v1alpha1.PatchesPendingAnnotation: "{}"}}}
	s.must(s.kube.Tracker().Add(earlier))
	s.check.Marked = []string{"earlier"}
	s.end()
	object, err := s.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", "earlier")
	s.must(err)
	if text, found := object.(*corev1.Node).Annotations[v1alpha1.PatchesPendingAnnotation]; found {
		t.Errorf("the annotation of the earlier check is %s", text)
	}
}

// TestUnwantedChecksGo: a policy without spec.pioneer leaves no pod on a node.
func TestUnwantedChecksGo(t *testing.T) {
	s := newCheckStage(t)
	if _, err := s.p.Check(t.Context(), s.check); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range [][]CheckTask{{s.check}, nil} {
		s.must(s.p.SweepChecks(t.Context(), wanted))
		order, pod := s.objects()
		if (order != nil) != (wanted != nil) || (pod != nil) != (wanted != nil) {
			t.Errorf("wanted %v: order %v, pod %v", wanted, order, pod)
		}
	}
	s.check.Holder = v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-2026.03.14", UID: "capture"}
	if _, err := s.p.Check(t.Context(), s.check); err != nil {
		t.Fatal(err)
	}
	s.must(s.p.SweepChecks(t.Context(), nil))
	if order, pod := s.objects(); order == nil || pod == nil {
		t.Errorf("the check of a capture is gone: order %v, pod %v", order, pod)
	}
}
