package manifest

import (
	"context"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// TestPodCreatorsReadNoEngineSecret: an account that may create generalize pods, and all accounts of such pods, have
// no permission on Secrets and pods of the engine's namespace. The engine creates no pods in the namespace of its Secrets.
func TestPodCreatorsReadNoEngineSecret(t *testing.T) {
	admin := kubernetes.NewForConfigOrDie(apitest.Server(t))
	install(t, admin)
	ctx, create := t.Context(), metav1.CreateOptions{}
	const engineSpace, podSpace = "kamino-system", "kamino-generalize"
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "pod-maker"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}}}}
	if _, err := admin.RbacV1().Roles(podSpace).Create(ctx, role, create); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "pod-maker"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pod-maker"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "pod-maker"}}}
	if _, err := admin.RbacV1().RoleBindings(podSpace).Create(ctx, binding, create); err != nil {
		t.Fatal(err)
	}
	may := func(account, namespace, verb, resource string) bool {
		groups := []string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + podSpace}
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: account, Groups: groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: resource}}}
		answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, create)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status.Allowed
	}
	makes, lists := false, false
	// Rights apply a moment after their creation, in order within a kind: these are the last.
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		makes, lists = may("pod-maker", podSpace, "create", "pods"), may("kured", "", "list", "nodes")
		return makes && lists, nil
	})
	if err != nil {
		t.Fatalf("the rights do not apply: %v; pod-maker may make pods: %t, kured may list nodes: %t", err, makes, lists)
	}
	const engine = "system:serviceaccount:" + engineSpace + ":kamino-engine"
	for _, account := range []string{
		"pod-maker", "system:serviceaccount:" + podSpace + ":kamino-generalize", "system:serviceaccount:" + podSpace + ":default",
	} {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			for _, resource := range []string{"secrets", "pods"} {
				if may(account, engineSpace, verb, resource) {
					t.Errorf("%s may %s %s in namespace %s", account, verb, resource, engineSpace)
				}
			}
		}
	}
	// Some permissions exist, so the checks are not empty.
	for _, right := range []struct{ account, namespace, verb, resource string }{
		{"pod-maker", podSpace, "create", "pods"}, {engine, podSpace, "create", "pods"}, {engine, podSpace, "create", "secrets"},
		{engine, engineSpace, "get", "secrets"},
	} {
		if !may(right.account, right.namespace, right.verb, right.resource) {
			t.Errorf("%s may not %s %s in namespace %s", right.account, right.verb, right.resource, right.namespace)
		}
	}
	for _, right := range []struct{ namespace, verb, resource string }{
		{engineSpace, "create", "pods"}, {engineSpace, "list", "secrets"}, {podSpace, "get", "secrets"}, {podSpace, "list", "secrets"},
	} {
		if may(engine, right.namespace, right.verb, right.resource) {
			t.Errorf("the engine may %s %s in namespace %s", right.verb, right.resource, right.namespace)
		}
	}
}
