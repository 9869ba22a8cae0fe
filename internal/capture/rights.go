package capture

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// accountRights are what the generalize pod's account must be allowed in its namespace: to read what it is ordered to
// do, and to report on it.
var accountRights = []authorizationv1.ResourceAttributes{
	{Group: v1alpha1.GroupVersion.Group, Resource: "orders", Verb: "get"},
	{Group: v1alpha1.GroupVersion.Group, Resource: "orders", Subresource: "status", Verb: "patch"},
}

// refuseAccount asks the API server what the generalize pod's account may do: a right that it lacks would show only
// when the donor is drained. Who may not ask refuses nothing.
func (e *Engine) refuseAccount(ctx context.Context) ([]cloud.Refusal, error) {
	namespace := e.podNamespace()
	for _, right := range accountRights {
		right.Namespace = namespace
		review, err := e.Kube.AuthorizationV1().LocalSubjectAccessReviews(namespace).Create(ctx, &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
			Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: &right,
				User:               fmt.Sprintf("system:serviceaccount:%s:%s", namespace, v1alpha1.GeneralizeServiceAccount),
				Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			},
		}, metav1.CreateOptions{})
		switch {
		case apierrors.IsForbidden(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("ask what service account %s/%s may do: %w", namespace, v1alpha1.GeneralizeServiceAccount, err)
		case !review.Status.Allowed:
			resource := right.Resource
			if right.Subresource != "" {
				resource += "/" + right.Subresource
			}
			return []cloud.Refusal{cloud.Refuse(NotInstalled,
				fmt.Sprintf("service account %s/%s, which the generalize pod runs as, may not %s %s.%s in its namespace, so that the pod could not report", namespace, v1alpha1.GeneralizeServiceAccount, right.Verb, resource, right.Group),
				"give it its role again, by kamino manifests | kubectl apply -f -, or by helm upgrade")}, nil
		}
	}
	return nil, nil
}

// refuseForce asks whether this process may delete pods, where a drain is to end with that. A Prototype that is only
// thought of may be carried out by another one, whose rights are not known here.
func (e *Engine) refuseForce(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	if w.p.UID == "" && !e.Drives || !w.p.Spec.Settings.Drain.Force {
		return nil, nil
	}
	review, err := e.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: "pods", Verb: "delete"}},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask whether pods may be deleted: %w", err)
	case review.Status.Allowed:
		return nil, nil
	}
	return []cloud.Refusal{cloud.Refuse(ForceNotAllowed, "the drain is to be forced (settings.drain.force), and Kamino may not delete pods",
		"give it that right with rbac.force=true (kamino manifests --force), or leave force out")}, nil
}
