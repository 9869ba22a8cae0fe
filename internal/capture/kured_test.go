package capture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

func kured(annotation, text string, args ...string) *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kured"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "kured", Command: append([]string{"/usr/bin/kured"}, args...)}}
	if text != "" {
		set.Annotations = map[string]string{annotation: text}
	}
	return set
}

// TestKuredsLock reads what kured 1.x writes, with one owner and with several.
func TestKuredsLock(t *testing.T) {
	created := noon.Add(-10 * time.Minute).Format(time.RFC3339Nano)
	one := func(node string, ttl time.Duration) string {
		return fmt.Sprintf(`{"nodeID":%q,"metadata":{"unschedulable":false},"created":%q,"TTL":%d}`, node, created, ttl)
	}
	for name, c := range map[string]struct {
		set  *appsv1.DaemonSet
		node string
		bad  bool
	}{
		"free":               {set: kured(kuredLock, "")},
		"for good":           {set: kured(kuredLock, one("n1", 0)), node: "n1"},
		"for a time":         {set: kured(kuredLock, one("n1", 11*time.Minute)), node: "n1"},
		"run out":            {set: kured(kuredLock, one("n1", 10*time.Minute))},
		"several":            {set: kured(kuredLock, `{"maxOwners":2,"locks":[`+one("n1", time.Minute)+`,`+one("n2", 0)+`]}`), node: "n2"},
		"several, free":      {set: kured(kuredLock, `{"maxOwners":2,"locks":[]}`)},
		"another annotation": {set: kured("example.com/lock", one("n1", 0), "--period=1h", "--lock-annotation=example.com/lock"), node: "n1"},
		"not readable":       {set: kured(kuredLock, "{"), bad: true},
	} {
		node, err := rebooting(c.set, noon)
		if node != c.node || (err != nil) != c.bad {
			t.Errorf("%s: %q, %v", name, node, err)
		}
	}
}

// TestNoDonorIsTakenWhileKuredReboots: the capture waits, says for whom, and goes on by itself.
func TestNoDonorIsTakenWhileKuredReboots(t *testing.T) {
	s := newStage(t).decide()
	s.engine.Kured = DefaultKured
	sets := appsv1.SchemeGroupVersion.WithResource("daemonsets")
	held := kured(kuredLock, fmt.Sprintf(`{"nodeID":"peer","created":%q,"TTL":0}`, noon.Format(time.RFC3339)))
	s.must(s.objects.Create(sets, held, "kube-system"))
	waited := 0
	s.succeeded(s.play(func(int) {
		p := s.prototype()
		if p.Status.Phase == v1alpha1.PhasePending {
			waited++
			if !strings.Contains(p.Status.Progress, "kured") || !strings.Contains(p.Status.Progress, "peer") {
				t.Errorf("it says %q", p.Status.Progress)
			}
			if p.Status.Donor != nil || s.generalizePod() != nil {
				t.Error("the donor is taken, or looked at")
			}
		}
		if waited == 3 {
			free := held.DeepCopy()
			free.Annotations = nil
			s.must(s.objects.Update(sets, free, "kube-system"))
		}
	}))
	if waited < 3 {
		t.Errorf("it waited for %d passes", waited)
	}
}
