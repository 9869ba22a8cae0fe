package capture

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
)

// clusterChecks asks the cluster what a capture will need.
type clusterChecks struct {
	kube         kubernetes.Interface
	client       client.Client
	image        podImages
	podNamespace string
	now          clock
}

// clockAhead is the lead of the donor's clock over the API server's clock, from the kubelet's Lease of the node. Zero
// if the Lease is missing or forbidden.
func (q clusterChecks) clockAhead(ctx context.Context, name string) (time.Duration, error) {
	lease, err := q.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read lease %s/%s: %w", corev1.NamespaceNodeLease, name, err)
	case lease.Spec.RenewTime == nil:
		return 0, nil
	}
	if offset, known := node.LeaseOffset(lease); known {
		return offset, nil
	}
	return lease.Spec.RenewTime.Sub(q.now()), nil // the API server does not say when
}

// account reports whether the service account of the generalize pod exists.
func (q clusterChecks) account(ctx context.Context) (bool, error) {
	_, err := q.kube.CoreV1().ServiceAccounts(q.podNamespace).Get(ctx, v1alpha1.GeneralizeServiceAccount, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read service account %s/%s: %w", q.podNamespace, v1alpha1.GeneralizeServiceAccount, err)
	}
	return err == nil, nil
}

// accountRights are the permissions of the generalize pod's account in its namespace: read its NodeOrder, and report on the
// NodeOrder.
var accountRights = []authorizationv1.ResourceAttributes{
	{Group: v1alpha1.GroupVersion.Group, Resource: "nodeorders", Verb: "get"},
	{Group: v1alpha1.GroupVersion.Group, Resource: "nodeorders", Subresource: "status", Verb: "patch"},
}

// rightLacking returns the first missing permission of the account. Empty if this process may not ask.
func (q clusterChecks) rightLacking(ctx context.Context) (string, error) {
	for _, right := range accountRights {
		right.Namespace = q.podNamespace
		review, err := q.kube.AuthorizationV1().LocalSubjectAccessReviews(q.podNamespace).Create(ctx, &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: q.podNamespace},
			Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: &right,
				User:               fmt.Sprintf("system:serviceaccount:%s:%s", q.podNamespace, v1alpha1.GeneralizeServiceAccount),
				Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + q.podNamespace, "system:authenticated"},
			},
		}, metav1.CreateOptions{})
		switch {
		case apierrors.IsForbidden(err):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("check the permissions of service account %s/%s: %w", q.podNamespace, v1alpha1.GeneralizeServiceAccount, err)
		case !review.Status.Allowed:
			return phraseOf(right), nil
		}
	}
	return "", nil
}

// orderRefused creates the NodeOrder as a dry run. A missing CRD would otherwise show only after the drain. Missing
// permissions of this process are ignored.
func (q clusterChecks) orderRefused(ctx context.Context, p *v1alpha1.Prototype) string {
	order := newOrder(p, q.podNamespace, "preflight", "", "preflight")
	order.OwnerReferences = nil // a Prototype of a preview has no UID
	err := q.client.Create(ctx, order, client.DryRunAll)
	if !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		return ""
	}
	return err.Error()
}

// podRefused creates the generalize pod as a dry run: Pod Security, a quota or a webhook may refuse the pod. Missing
// permissions and other errors are ignored, because a command may run with few rights.
func (q clusterChecks) podRefused(ctx context.Context, w *pass) string {
	pod := generalizePod(w.p, w.record, q.podNamespace, q.image.of(w.p))
	if pod.Spec.Containers[0].Image == "" {
		return ""
	}
	_, err := q.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || notAuthorized(err) {
		return ""
	}
	return err.Error()
}

// notAuthorized separates refusals of the authorizer from refusals of admission, which share the status code.
func notAuthorized(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource")
}

// mayDelete reports whether this process may delete the resource. True if the process may not ask.
func (q clusterChecks) mayDelete(ctx context.Context, resource string) (bool, error) {
	return q.may(ctx, authorizationv1.ResourceAttributes{Resource: resource, Verb: "delete"})
}

// may reports whether this process has a permission. True if the process may not ask.
func (q clusterChecks) may(ctx context.Context, right authorizationv1.ResourceAttributes) (bool, error) {
	review, err := q.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("check the permission to %s: %w", phraseOf(right), err)
	}
	return review.Status.Allowed, nil
}

// phraseOf returns a permission as a verb with a resource.
func phraseOf(right authorizationv1.ResourceAttributes) string {
	phrase := right.Verb + " " + right.Resource
	if right.Subresource != "" {
		phrase += "/" + right.Subresource
	}
	if right.Group != "" {
		phrase += "." + right.Group
	}
	return phrase
}

// copyRightLacking returns the first permission that this process lacks for a capture by copy: the word to the pod on the donor is
// an annotation of the NodeOrder, and pods that reach the workshop are evicted.
func (q clusterChecks) copyRightLacking(ctx context.Context) (string, error) {
	for _, right := range []authorizationv1.ResourceAttributes{
		{Group: v1alpha1.GroupVersion.Group, Resource: "nodeorders", Verb: "patch", Namespace: q.podNamespace},
		{Resource: "pods", Subresource: "eviction", Verb: "create"},
	} {
		may, err := q.may(ctx, right)
		switch {
		case err != nil:
			return "", err
		case !may:
			return phraseOf(right), nil
		}
	}
	return "", nil
}

// Objects of the cluster with facts on joining and growing. Sources: kubeadm's bootstrap signer, which adds
// jws-kubeconfig-<token ID> to cluster-info for each valid token; the cluster autoscaler.
const (
	clusterInfo      = "cluster-info"
	tokenSignature   = "jws-kubeconfig-"
	autoscalerStatus = "cluster-autoscaler-status"
)

// noToken reports whether the cluster lists its bootstrap tokens, and no valid token exists.
func noToken(info map[string]string, w *pass) bool {
	signed := slices.ContainsFunc(slices.Collect(maps.Keys(info)), func(key string) bool { return strings.HasPrefix(key, tokenSignature) })
	_, machine := w.donor.node.Annotations[cloud.MachineAnnotation] // Cluster API creates a token for each new machine
	return info != nil && !signed && !machine
}

// configMapData returns the data of a ConfigMap; nil if the ConfigMap is missing or forbidden.
func (q clusterChecks) configMapData(ctx context.Context, namespace, name string) (map[string]string, error) {
	found, err := q.kube.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	return found.Data, nil
}
