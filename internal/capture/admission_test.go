package capture

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/testing/memory"
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

// outcome has an effect on the API server with a fate.
func outcome(fate memory.Outcome, effect func() error) error {
	if fate.Err != nil {
		fate.Err = apierrors.NewInternalError(fate.Err)
	}
	return fate.Apply(effect)
}

// react loses calls of the clientset, and does what a real API server does and the fake one does not:
// field selectors and evictions.
func (s *testEnv) react(action kubetesting.Action) (bool, runtime.Object, error) {
	var result runtime.Object
	what := fmt.Sprintf("%s %s/%s", action.GetVerb(), action.GetResource().Resource, action.GetSubresource())
	err := outcome(s.next(what), func() error {
		var err error
		result, err = s.effect(action)
		return err
	})
	return true, result, err
}

func (s *testEnv) effect(action kubetesting.Action) (runtime.Object, error) {
	if action.GetSubresource() == "eviction" {
		return nil, s.evicted(action.(kubetesting.CreateAction))
	}
	if create, ok := action.(kubetesting.CreateActionImpl); ok && action.GetResource().Group == authorizationv1.GroupName {
		return s.reviewed(create.GetObject()), nil
	}
	if create, ok := action.(kubetesting.CreateActionImpl); ok && len(create.CreateOptions.DryRun) > 0 {
		return create.GetObject(), s.admits
	} else if ok && create.Resource.Resource == "pods" && create.Subresource == "" && s.denies > 0 {
		s.denies--
		return nil, forbidden(`User "engine" cannot create resource "pods"`)
	}
	if create, ok := action.(kubetesting.CreateActionImpl); ok {
		made := create.GetObject().(metav1.Object)
		made.SetUID(s.uid())
		made.SetCreationTimestamp(metav1.NewTime(s.clock.Now()))
	}
	if patch, ok := action.(kubetesting.PatchActionImpl); ok && len(patch.PatchOptions.DryRun) > 0 {
		return s.tracked("nodes", "", patch.Name), s.mayTry
	} else if ok && patch.Resource.Resource == "nodes" && patch.Name != donorName && s.mayMark != nil {
		return nil, s.mayMark
	}
	if err := s.precondition(action); err != nil {
		return nil, err
	}
	_, result, err := kubetesting.ObjectReaction(s.objects)(action)
	if list, ok := result.(*corev1.PodList); ok {
		fields := action.(kubetesting.ListAction).GetListRestrictions().Fields
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
			node, asked := fields.RequiresExactMatch("spec.nodeName")
			return asked && p.Spec.NodeName != node
		})
	}
	return result, err
}

// precondition is the API server's check of a deletion with a UID.
func (s *testEnv) precondition(action kubetesting.Action) error {
	deletion, is := action.(kubetesting.DeleteActionImpl)
	if !is || deletion.DeleteOptions.Preconditions == nil || deletion.DeleteOptions.Preconditions.UID == nil {
		return nil
	}
	object, err := s.objects.Get(action.GetResource(), action.GetNamespace(), deletion.Name)
	if err != nil {
		return err
	}
	if uid := object.(metav1.Object).GetUID(); uid != *deletion.DeleteOptions.Preconditions.UID {
		return apierrors.NewConflict(action.GetResource().GroupResource(), deletion.Name, fmt.Errorf("the UID is %s", uid))
	}
	return nil
}

// reviewed answers who asks for rights.
func (s *testEnv) reviewed(object runtime.Object) runtime.Object {
	may := func(a *authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: !slices.Contains(s.lacks, strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/"))}
	}
	switch review := object.DeepCopyObject().(type) {
	case *authorizationv1.LocalSubjectAccessReview:
		review.Status = may(review.Spec.ResourceAttributes)
		return review
	case *authorizationv1.SelfSubjectAccessReview:
		review.Status = may(review.Spec.ResourceAttributes)
		return review
	}
	return object
}

func (s *testEnv) evicted(action kubetesting.CreateAction) error {
	if s.blocked > 0 {
		s.blocked--
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{
			{Type: "DisruptionBudget", Message: "The disruption budget app needs 3 healthy pods and has 3 currently"},
		}
		return err
	}
	if options := action.GetObject().(*policyv1.Eviction).DeleteOptions; options != nil && len(options.DryRun) > 0 {
		return nil
	}
	name := action.GetObject().(metav1.Object).GetName()
	return s.objects.Delete(corev1.SchemeGroupVersion.WithResource("pods"), action.GetNamespace(), name)
}
