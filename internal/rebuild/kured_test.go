package rebuild

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/node/kured"
)

// lock gives the lock of kured to a node; "{" is an invalid lock.
func (s *testEnv) lock(text string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "kured", Annotations: map[string]string{"weave.works/kured-node-lock": text},
	}}
}

// TestNoNodeIsReservedWhileKuredReboots: the report has the reason, and the rebuild continues after the reboot. A rebuild
// of all nodes at once ignores the lock.
func TestNoNodeIsReservedWhileKuredReboots(t *testing.T) {
	s := newTestEnv(t, 2)
	s.must(s.kube.Tracker().Add(s.lock(`{"nodeID":"good-0"}`)))
	r := s.replacement()
	r.Kured = kured.Default
	s.between = func(pauses int) error {
		if pauses < 5 && s.rebuilds() > 0 {
			t.Error("a node is rebuilt while kured reboots another one")
		}
		if pauses < 5 && r.roster.choice.Waiting != "kured holds its lock for node good-0" {
			t.Errorf("it waits for %q", r.roster.choice.Waiting)
		}
		if pauses == 5 {
			free := s.lock("")
			free.Annotations = nil
			return s.kube.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("daemonsets"), free, "kube-system")
		}
		return nil
	}
	if result := s.run(r); len(result.Rebuilt) != 2 || s.pauses < 5 {
		t.Errorf("%+v after %d pauses", result, s.pauses)
	}

	s = newTestEnv(t, 2)
	s.must(s.kube.Tracker().Add(s.lock(`{"nodeID":"good-0"}`)))
	r = s.replacement()
	r.Kured, r.AllAtOnce = kured.Default, true
	if result := s.run(r); len(result.Rebuilt) != 2 {
		t.Errorf("at once: %+v", result)
	}
}

// TestTheNodeThatKuredRebootsMayBeRebuilt, because the node is out of service anyway.
func TestTheNodeThatKuredRebootsMayBeRebuilt(t *testing.T) {
	s := newTestEnv(t, 1)
	s.must(s.kube.Tracker().Add(s.lock(`{"nodeID":"bad-0"}`)))
	r := s.replacement()
	r.Kured = kured.Default
	if result := s.run(r); len(result.Rebuilt) != 1 {
		t.Errorf("%+v", result)
	}
}

func TestUnreadableLockIsReported(t *testing.T) {
	s := newTestEnv(t, 1)
	s.must(s.kube.Tracker().Add(s.lock("{")))
	r := s.replacement()
	r.Kured = kured.Default
	if result := s.run(r); len(result.Rebuilt) != 1 {
		t.Errorf("%+v", result)
	}
	if message := strings.Join(s.said, "\n"); strings.Count(message, "bad-0 is reserved; whether kured reboots another node is unknown: ") != 1 {
		t.Errorf("said:\n%s", message)
	}
}
