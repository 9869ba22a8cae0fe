package capture

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// confirmationReasons are the reasons for a user's question before the capture.
func (s *testEnv) confirmationReasons() (reasons []string, err error) {
	refusals, err := s.engine.Refusals(s.t.Context(), s.prototype())
	for _, r := range refusals {
		reasons = append(reasons, r.Reason)
	}
	return reasons, err
}

// withoutAccount takes the generalize pod's account away.
func (s *testEnv) withoutAccount() {
	s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("serviceaccounts"), podspace, v1alpha1.GeneralizeServiceAccount))
}

// TestNoLookThatFailsHidesAReason: whichever call of the inquiry is lost, what was seen refuses; and where nothing was, the
// capture is not let begin.
func TestNoLookThatFailsHidesAReason(t *testing.T) {
	for _, spoiled := range []bool{true, false} {
		staged := func() *testEnv {
			s := newTestEnv(t).decide()
			if spoiled {
				s.withoutAccount()
			}
			return s
		}
		whole := staged()
		if _, err := whole.confirmationReasons(); err != nil || len(whole.calls()) < 10 {
			t.Fatalf("%d calls, %v", len(whole.calls()), err)
		}
		for n, lost := range whole.calls() {
			s := staged()
			denied := memory.Outcome{Err: &cloud.Error{Kind: cloud.Denied, Op: "lose", Message: lost}}
			s.schedule = memory.NewSchedule(map[int]memory.Loss{n: {Name: "denied", Outcome: denied}})
			reasons, err := s.confirmationReasons()
			needed := slices.Contains([]string{"get nodes/", "get pods/", "get serviceaccounts/"}, lost)
			switch {
			case spoiled && !needed && (err != nil || !slices.Equal(reasons, []string{admission.NotInstalled})):
				t.Errorf("without %q: %v, %v", lost, reasons, err)
			case spoiled && needed && err == nil && len(reasons) == 0, !spoiled && err == nil && len(reasons) == 0 && !mayBeLost(lost):
				t.Errorf("without %q the capture would begin", lost)
			case !spoiled && len(reasons) > 0:
				t.Errorf("without %q it is refused for %v", lost, reasons)
			}
		}
	}
}

// mayBeLost reports whether a lost call only loses a reason.
func mayBeLost(what string) bool {
	return what == "create nodeorder" || strings.HasPrefix(what, "create pods/")
}

// TestASilentCloudIsAskedNoMore in the same look, and hides nothing of the cluster.
func TestASilentCloudIsAskedNoMore(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.Throttled, cloud.Unavailable, cloud.Unauthenticated, cloud.Denied} {
		s := newTestEnv(t).decide()
		s.withoutAccount()
		s.lose = func(what string) memory.Outcome {
			if !isCloudCall(what) || strings.HasPrefix(what, "PoolsOf") {
				return memory.Pass()
			}
			return memory.Outcome{Err: &cloud.Error{Kind: kind, Op: "look", Message: "not now"}}
		}
		reasons, err := s.confirmationReasons()
		if err != nil || !slices.Equal(reasons, []string{admission.NotInstalled}) {
			t.Errorf("%s: %v, %v", kind, reasons, err)
		}
		messages := slices.DeleteFunc(s.calls(), func(call string) bool { return !isCloudCall(call) || strings.HasPrefix(call, "PoolsOf") })
		if (len(messages) == 1) != (kind != cloud.Denied) {
			t.Errorf("%s: it was asked %v", kind, messages)
		}
		preview, err := s.engine.Preview(t.Context(), s.prototype(), nil)
		var shown *cloud.Error
		if len(preview.Refusals) != 1 || !errors.As(err, &shown) || shown.Kind != kind {
			t.Errorf("%s: a preview shows both, and not %+v, %v", kind, preview.Refusals, err)
		}
	}
}

// TestNoImageIsTheOnlyReason of a build without an image: the API server's refusal of a pod without an image is no
// trouble of the installation.
func TestNoImageIsTheOnlyReason(t *testing.T) {
	s := newTestEnv(t).decide()
	s.engine.Image = ""
	s.admits = apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "generalize-x",
		field.ErrorList{field.Required(field.NewPath("spec", "containers").Index(0).Child("image"), "")})
	if reasons, err := s.confirmationReasons(); err != nil || !slices.Equal(reasons, []string{admission.NoImage}) {
		t.Errorf("%v, %v", reasons, err)
	}
}

// withoutDefinitions is an API server that does not know Prototypes.
type withoutDefinitions struct{ client.Client }

func (w withoutDefinitions) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*v1alpha1.PrototypeList); is {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("prototypes").GroupResource(), "")
	}
	return w.Client.List(ctx, list, options...)
}

// TestPreviewWithoutDefinitions: a cluster without the definitions has no other captures.
func TestPreviewWithoutDefinitions(t *testing.T) {
	s := newTestEnv(t).decide()
	p := s.prototype()
	s.engine.Client = withoutDefinitions{s.faulty}
	for _, change := range []func(*v1alpha1.Prototype){func(*v1alpha1.Prototype) {}, pioneer} {
		change(p)
		if preview, err := s.engine.Preview(t.Context(), p, nil); err != nil || len(preview.Refusals) > 0 || preview.Change == nil {
			t.Errorf("%+v, %v", preview, err)
		}
	}
}

// isCloudCall separates calls of the provider from calls of the API server.
func isCloudCall(what string) bool { return what[0] >= 'A' && what[0] <= 'Z' }

// TestAPassThatCannotSeeAllEnds: known obstacles refuse the capture while the cloud is away; otherwise the capture
// waits.
func TestAPassThatCannotSeeAllEnds(t *testing.T) {
	for _, spoiled := range []bool{true, false} {
		s := newTestEnv(t).decide()
		if spoiled {
			s.withoutAccount()
		}
		s.lose = func(what string) memory.Outcome {
			if strings.HasPrefix(what, "Instance ") {
				return memory.Outcome{Err: &cloud.Error{Kind: cloud.Unavailable, Op: "look", Message: "not now"}}
			}
			return memory.Pass()
		}
		_, err := s.engine.Pass(t.Context(), s.name)
		p := s.prototype()
		if spoiled && (err != nil || p.Status.Failure == nil || p.Status.Failure.Reason != admission.NotInstalled) {
			t.Errorf("it is not refused: %v, %+v", err, p.Status.Failure)
		}
		if !spoiled && (!cloud.Is(err, cloud.Unavailable) || p.Status.Failure != nil) {
			t.Errorf("it does not wait for the cloud: %v, %+v", err, p.Status.Failure)
		}
		if s.cloud.World().Count(memory.ByCaller, memory.EffectProtect, "") > 0 {
			t.Error("the donor was taken")
		}
	}
}

// refusingCloud is a cloud that refuses a capture and its trial for the same reason, as Cluster API does for a pool without
// write permission.
type refusingCloud struct{ cloud.Provider }

func (r refusingCloud) refusal() cloud.Refusal {
	return cloud.Refuse("RollingUpdate", "the pool would be rolled", "set it to OnDelete")
}

func (r refusingCloud) Preflight(context.Context, cloud.PreflightSpec) ([]cloud.Refusal, error) {
	return []cloud.Refusal{r.refusal()}, nil
}

// PreflightTrial has a reason of its own beside.
func (r refusingCloud) PreflightTrial(context.Context, cloud.TrialSpec) ([]cloud.Refusal, error) {
	return []cloud.Refusal{r.refusal(), cloud.Refuse("PoolNotCopyable", "a machine of its own would be another", "do without")}, nil
}

// TestSharedObstacleIsReportedOnce: of the capture and of its trial.
func TestSharedObstacleIsReportedOnce(t *testing.T) {
	v := trying(t)
	v.engine.Cloud = memory.Provider(refusingCloud{v.wrapped})
	if reasons, err := v.confirmationReasons(); err != nil || !slices.Equal(reasons, []string{"RollingUpdate", "PoolNotCopyable"}) {
		t.Errorf("it is refused for %v: %v", reasons, err)
	}
}
