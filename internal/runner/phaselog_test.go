package runner

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestCaptureIsLogged at the default level: each phase, each wait and the failure once.
func TestCaptureIsLogged(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "prototype" || a.Key == "pool" || a.Key == "donor" {
			return slog.Attr{}
		}
		return a
	}})
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	observe := logChanges(logr.FromSlogHandler(handler), func() time.Time { return now })
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: metav1.NewTime(now)}}
	p.Spec.Version, p.Spec.Pool = "2026.03.14", "pool1"
	stalled := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: status, Reason: "DrainBlocked", Message: "a budget"}}
	}
	for _, change := range []func(*v1alpha1.PrototypeStatus){
		func(s *v1alpha1.PrototypeStatus) {
			s.Phase = v1alpha1.PhaseDraining
			s.Steps = []v1alpha1.Step{{StartedAt: metav1.NewMicroTime(now.Add(3 * time.Second))}}
		},
		func(s *v1alpha1.PrototypeStatus) { s.Progress = "pods left: 3" },
		func(s *v1alpha1.PrototypeStatus) { s.Conditions = stalled(metav1.ConditionTrue) },
		func(s *v1alpha1.PrototypeStatus) { s.Conditions = stalled(metav1.ConditionTrue) },
		func(s *v1alpha1.PrototypeStatus) { s.Conditions = stalled(metav1.ConditionFalse) },
		func(s *v1alpha1.PrototypeStatus) {
			s.Phase, s.Failure = v1alpha1.PhaseFailed, &v1alpha1.Failure{Reason: "DrainTimeout", Message: "not drained"}
			s.Steps[0].FinishedAt = new(metav1.NewMicroTime(now.Add(time.Minute)))
		},
	} {
		before := p.DeepCopy()
		change(&p.Status)
		observe(t.Context(), before, p)
		observe(t.Context(), p, p) // a pass without a change
	}
	want := `level=INFO msg="capture phase" version=2026.03.14 phase=Draining from="" sinceCreation=3s
level=WARN msg="A capture of pool pool1 waits for you: DrainBlocked." version=2026.03.14 subject="prototype p" reason=DrainBlocked cause="A budget" next="the capture continues automatically once the cause is gone" command="kamino describe p"
level=INFO msg="capture phase" version=2026.03.14 phase=Failed from=Draining sinceCreation=1m0s
level=WARN msg="A capture of pool pool1 failed: DrainTimeout." version=2026.03.14 subject="prototype p" reason=DrainTimeout cause="Not drained" next="nothing, until you capture again" command="kamino describe p"
`
	if diff := cmp.Diff(want, strings.ReplaceAll(out.String(), "  ", " ")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
