package nodepatch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/patch/plan"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

var patchedMarks = map[string]string{v1alpha1.PatchedAtAnnotation: "*", v1alpha1.PatchLevelAnnotation: levels[1]}

// notice is what a termination handler writes on the node of a spot instance that AWS will interrupt.
var notice = []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule}}

// wantPatched checks the end of a patch without trouble.
func (s *testEnv) wantPatched() {
	s.Helper()
	s.wantEnd("", patchedMarks)
	n := s.node()
	if n.Spec.Unschedulable || s.boots != 2 || s.installs != 1 || !s.served {
		s.Errorf("cordoned %t, %d boots, %d installs, served %t", n.Spec.Unschedulable, s.boots, s.installs, s.served)
	}
	at, err := time.Parse(time.RFC3339, n.Annotations[v1alpha1.PatchedAtAnnotation])
	if err != nil || !at.Before(s.record.BackAt.Time) {
		s.Errorf("patched at %s, back at %s: %v", at, s.record.BackAt, err)
	}
	if s.record.Level != levels[1] || s.record.Set != patch.Digest(s.report.Installed) || s.record.FailedLevel != "" {
		s.Errorf("record %+v", s.record)
	}
}

func TestAPatch(t *testing.T) {
	s := newTestEnv(t)
	s.run()
	s.wantPatched()
	const want = "Cordon, Evict, OrderPatch, RunPod, Adopt, Believe, MarkPending, DeletePod, DeleteOrder, OrderReboot, RunPod, " +
		"Wait: Reboot, DeletePod, DeleteOrder, MarkPatched, Uncordon, Wait: Soak, Finish"
	if got := strings.Join(s.did, ", "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if soaked := s.now.Sub(s.record.HealthySince.Time); soaked < time.Hour || soaked > time.Hour+5*time.Minute {
		t.Errorf("the node soaked for %s", soaked)
	}
}

// TestEveryLostCall: each write is lost once, before and after its effect, by an error and by the end of the process. The patch ends as without the loss.
func TestEveryLostCall(t *testing.T) {
	memory.Courses{Least: 20, Play: func(t *testing.T, schedule *memory.Schedule) {
		s := newTestEnv(t)
		s.schedule = schedule
		s.run()
		s.wantPatched()
	}}.LoseEach(t)
}

func TestHowAPatchEnds(t *testing.T) {
	refused := func(r *patch.Report) {
		r.After, r.Installed, r.Failure = levels[0], nil, &patch.Failure{Reason: patch.RepositoryNotRead, Message: "main is dead"}
	}
	pending := map[string]string{v1alpha1.RebootPendingAnnotation: "true"}
	failed := map[string]string{v1alpha1.PatchFailedAnnotation: levels[1]}
	unbooted := map[string]string{v1alpha1.PatchFailedAnnotation: levels[1], v1alpha1.RebootPendingAnnotation: "true"}
	unknown := map[string]string{v1alpha1.PatchFailedAnnotation: "true"}
	for _, c := range []struct {
		name    string
		report  func(*patch.Report)
		stage   func(*testEnv)
		failure plan.Reason
		marks   map[string]string
		blamed  bool
	}{
		{"nothing to install", func(r *patch.Report) { r.After, r.Installed = levels[0], nil }, nil, "", nil, false},
		{"a repository is dead", refused, nil, plan.PatchRefused, nil, false},
		{"a script failed", func(r *patch.Report) { r.Failed = []string{"grub"} }, nil, plan.PatchFailed, unbooted, true},
		{"a level that failed before", nil, func(s *testEnv) { s.task.Quarantined = map[string]bool{levels[1]: true} }, plan.LevelQuarantined, unbooted, false},
		{"the node does not come back", nil, func(s *testEnv) { s.dead = true }, plan.RebootTimeout, unbooted, true},
		{"a DaemonSet is not healthy", nil, func(s *testEnv) {
			s.between = func(int) {
				if s.boots > 1 {
					s.unhealthy = "DaemonSet x is not Ready"
				}
			}
		}, plan.SoakFailed, failed, true},
		{"a DaemonSet is not healthy before the patch", nil, func(s *testEnv) { s.unhealthy = "main is dead" }, plan.NodeUnhealthy, nil, false},
		{"no report", nil, func(s *testEnv) { s.report = nil }, plan.PatchTimeout, unknown, false},
		{"a forged report", nil, func(s *testEnv) { s.forged = true }, plan.PatchTimeout, unknown, false},
		{"a report of another boot", func(r *patch.Report) { r.Token = bootID(7) }, nil, plan.PatchTimeout, unknown, false},
		{"stopped before the drain", nil, func(s *testEnv) { s.task.Ending = true }, plan.Stopped, nil, false},
		{"stopped during the patch", nil, func(s *testEnv) { s.between = func(int) { s.task.Ending = s.record.Method != "" } }, plan.Stopped, pending, false},
		{"stopped during the reboot", nil, func(s *testEnv) { s.between = func(int) { s.task.Ending = s.record.Method == v1alpha1.OrderReboot } },
			plan.Stopped, patchedMarks, false},
		{"another client reboots during the patch", nil, func(s *testEnv) {
			s.report = nil
			s.between = func(int) {
				if s.record.Order != nil && s.record.Order.Pod != "" && s.boots == 1 {
					s.reboot()
				}
			}
		}, plan.Interrupted, unknown, false},
		{"the Node is another", nil, func(s *testEnv) { s.task.NodeUID = "other" }, plan.NodeGoneAway, nil, false},
		{"another holder", nil, func(s *testEnv) { s.task.Holder.UID = "other" }, plan.ReservationLost, nil, false},
		{"a pod without a controller", nil, func(s *testEnv) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pet", Namespace: "default"}}
			pod.Spec.NodeName, pod.Status.Phase = nodeName, corev1.PodRunning
			s.must(s.kube.Tracker().Add(pod))
		}, plan.DrainTimeout, nil, false},
		{"a notice before the patch", nil, func(s *testEnv) { s.change(func(n *corev1.Node) { n.Spec.Taints = notice }) }, plan.DrainTimeout, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestEnv(t)
			if c.report != nil {
				c.report(s.report)
			}
			if c.stage != nil {
				c.stage(s)
			}
			s.run()
			s.wantEnd(c.failure, c.marks)
			if (s.record.FailedLevel != "") != c.blamed || c.blamed && s.record.FailedLevel != levels[1] {
				t.Errorf("the blamed level is %q", s.record.FailedLevel)
			}
			if (c.failure == plan.PatchRefused || c.failure == plan.NodeUnhealthy) && s.record.Problem != "main is dead" {
				t.Errorf("the problem is %q", s.record.Problem)
			}
			if c.failure == plan.NodeUnhealthy && s.node().Spec.Unschedulable {
				t.Error("the node is cordoned")
			}
		})
	}
}

// TestASecondPodFindsTheUnit: a client deletes the pod in each phase.
func TestASecondPodFindsTheUnit(t *testing.T) {
	for after := range 8 {
		t.Run(fmt.Sprint("after pass ", after), func(t *testing.T) {
			s := newTestEnv(t)
			s.between = func(pass int) {
				if pod := s.pod(); pass == after && pod != nil {
					s.must(s.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), pod.Namespace, pod.Name))
				}
			}
			s.run()
			s.wantPatched()
		})
	}
}

// TestSoakRestartsAfterProblem: the soak begins again after each problem.
func TestSoakRestartsAfterProblem(t *testing.T) {
	s := newTestEnv(t)
	begun := time.Time{}
	s.between = func(int) {
		if begun.IsZero() && !s.record.HealthySince.IsZero() {
			begun = s.now
		}
		s.unhealthy = ""
		if age := s.now.Sub(begun); !begun.IsZero() && age > 30*time.Minute && age < 40*time.Minute {
			s.unhealthy = "DaemonSet x is not Ready"
		}
	}
	s.run()
	s.wantPatched()
	if took := s.now.Sub(begun); took < 90*time.Minute {
		t.Errorf("the node soaked for %s in all", took)
	}
}

// TestANodeThatWasCordonedStaysCordoned in service, as before the reservation.
func TestANodeThatWasCordonedStaysCordoned(t *testing.T) {
	s := newTestEnv(t)
	s.change(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	n := s.node()
	lease, err := s.p.Reservations.Confirmed(t.Context(), n)
	s.must(err)
	lease.Unschedulable = true
	_, err = s.p.Reservations.Note(t.Context(), n, *lease)
	s.must(err)
	s.run()
	s.wantEnd("", patchedMarks)
	if !s.node().Spec.Unschedulable {
		t.Error("the node is uncordoned")
	}
}

// TestThePodOfAnOrder holds what the pod may rely on.
func TestThePodOfAnOrder(t *testing.T) {
	s := newTestEnv(t)
	r := Record{Order: &v1alpha1.OrderRecord{Namespace: "kamino-generalize", UID: "order-uid"}}
	pod := newPod(s.task, r, "kamino-generalize", "kamino:test")
	args := strings.Join(pod.Spec.Containers[0].Args, " ")
	for _, want := range []string{"patch", "--order kamino-generalize/" + pod.Name, "--order-uid order-uid", "--key-file " + node.CredentialMount + "/key"} {
		if !strings.Contains(args, want) {
			t.Errorf("%q is missing in %s", want, args)
		}
	}
	if pod.Spec.NodeName != nodeName || pod.Spec.RestartPolicy != corev1.RestartPolicyNever || *pod.Spec.AutomountServiceAccountToken || len(pod.Name) > 63 {
		t.Errorf("%+v", pod.Spec)
	}
	other := s.task
	other.Node = "node-2"
	if podName(other) == podName(s.task) {
		t.Error("two nodes of a holder share a name")
	}
	order := newOrder(s.task, plan.OrderPatch, "kamino-generalize", bootID(1), "key")
	if o := patch.OrderOf(order.Spec); o.Method != patch.Patch || !o.Drained || s.task.Patches.Drained {
		t.Errorf("%+v", o)
	}
	if order := newOrder(s.task, plan.OrderReboot, "kamino-generalize", bootID(1), "key"); order.Spec.Patch != nil ||
		order.Spec.Method != v1alpha1.OrderReboot {
		t.Errorf("%+v", order.Spec)
	}
}
