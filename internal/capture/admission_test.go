package capture

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
)

func forbidden(why string) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), "generalize-x", errors.New(why))
}

// TestAPodThatIsNotLetInIsRefusedBeforehand: what would keep the generalize pod out is found before the donor is touched.
func TestAPodThatIsNotLetInIsRefusedBeforehand(t *testing.T) {
	s := newTestEnv(t).decide()
	s.admits = forbidden(`violates PodSecurity "restricted:latest": privileged`)
	p := s.play()
	if p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != admission.NotInstalled ||
		!strings.Contains(p.Status.Failure.Message, "violates PodSecurity") {
		t.Fatalf("it is not refused: %s", verdict(p))
	}
	if p.Status.Donor != nil {
		t.Errorf("the donor was taken: %+v", p.Status.Donor)
	}
}

// TestPreviewNeedsNoPodPermission: a missing permission of the asking process does not concern the process that runs
// the capture.
func TestPreviewNeedsNoPodPermission(t *testing.T) {
	s := newTestEnv(t).decide()
	s.admits = forbidden(`User "reader" cannot create resource "pods" in API group "" in the namespace "kamino-generalize"`)
	s.succeeded(s.play())
}

// TestAWebhookThatKnowsNoDryRun says nothing of the pod. Source: k8s.io/apiserver, NewDryRunUnsupportedErr.
func TestAWebhookThatKnowsNoDryRun(t *testing.T) {
	s := newTestEnv(t).decide()
	s.admits = apierrors.NewBadRequest(`admission webhook "images.acme.example" does not support dry run`)
	s.succeeded(s.play())
}

// TestForbiddenPodIsReported has the right to make the pod come some passes late.
func TestForbiddenPodIsReported(t *testing.T) {
	s := newTestEnv(t).decide()
	s.denies = 3
	var messages []string
	p := s.play(func(int) {
		if c := meta.FindStatusCondition(s.prototype().Status.Conditions, v1alpha1.ConditionStalled); c != nil {
			messages = append(messages, c.Reason+": "+c.Message)
		}
	})
	s.succeeded(p)
	if len(messages) < 3 || !strings.HasPrefix(messages[0], "Denied: ") || !strings.Contains(messages[0], "cannot create resource") {
		t.Errorf("it says %q", messages)
	}
	if meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled) != nil {
		t.Errorf("it says so still: %+v", p.Status.Conditions)
	}
}
