package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// right is a permission that a process with captures needs.
type right struct {
	group, resource, sub string
	verbs                []string
	in                   where
}

// where is the scope of a permission.
type where int

const (
	everywhere where = iota
	own              // in the namespace of the Lease and of saved recipes
	pods             // in the namespace of the generalize pods
	kubelets         // in the namespace of the kubelets' Leases
)

// rights are the permissions of the role kamino-engine (package manifest), as far as a capture needs the permissions.
var rights = []right{
	{"kamino.dev", "prototypes", "", []string{"get", "list", "watch", "create", "patch", "delete"}, everywhere},
	{"kamino.dev", "prototypes", "status", []string{"patch"}, everywhere},
	{"", "nodes", "", []string{"get", "list", "watch", "patch"}, everywhere},
	{"", "pods", "", []string{"get", "list"}, everywhere},
	{"", "pods", "eviction", []string{"create"}, everywhere},
	{"policy", "poddisruptionbudgets", "", []string{"list"}, everywhere},
	{"apps", "daemonsets", "", []string{"get"}, everywhere},
	{"storage.k8s.io", "csinodes", "", []string{"list"}, everywhere},
	{"coordination.k8s.io", "leases", "", []string{"get", "list", "create", "update", "delete"}, own},
	{"coordination.k8s.io", "leases", "", []string{"get", "list"}, kubelets},
	{"", "pods", "", []string{"create"}, pods},
	{"", "secrets", "", []string{"get", "create"}, own},
	{"kamino.dev", "orders", "", []string{"get", "create", "delete"}, pods},
	{"", "secrets", "", []string{"create", "delete"}, pods},
	{"authorization.k8s.io", "localsubjectaccessreviews", "", []string{"create"}, pods},
}

// controllerRights are further permissions of a controller, which runs as a service account.
var controllerRights = []right{
	{"kamino.dev", "prototypepolicies", "", []string{"get", "list", "watch"}, everywhere},
	{"kamino.dev", "prototypepolicies", "status", []string{"patch"}, everywhere},
	{"", "pods", "", []string{"watch"}, pods},
	{"kamino.dev", "orders", "", []string{"list", "watch"}, pods},
}

// serviceAccount is the prefix of the names of service accounts.
const serviceAccount = "system:serviceaccount:"

// identify asks the API server for this command's user: with --as, another user than in the kubeconfig.
func (d *Doctor) identify(ctx context.Context) {
	d.who = "this user"
	review, err := d.Kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil && review.Status.UserInfo.Username != "" {
		d.who = review.Status.UserInfo.Username
	}
}

// rbac asks the API server for the permissions of this command's user. A user who runs captures needs these permissions,
// and also the installer, because RBAC forbids to grant permissions beyond one's own. For a service account, rbac adds the
// controller's permissions.
func (d *Doctor) rbac(ctx context.Context) {
	wanted, does, remedy := rights, "a capture needs",
		"let a cluster administrator install Kamino, or bind this user to the roles kamino-engine from `kamino manifests`"
	if strings.HasPrefix(d.who, serviceAccount) {
		wanted, does = slices.Concat(rights, controllerRights), "a controller needs"
		remedy = "bind the service account to the roles from `kamino manifests`, or let the chart create the roles (rbac.create, serviceAccount.name)"
	}
	var denied []string
	asked := 0
	for _, r := range wanted {
		for _, verb := range r.verbs {
			namespace := map[where]string{own: d.Namespace, pods: d.pods(), kubelets: corev1.NamespaceNodeLease}[r.in]
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Group: r.group, Resource: r.resource, Subresource: r.sub, Verb: verb, Namespace: namespace,
				},
			}}
			answer, err := d.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				d.add(Finding{Level: Warn, Check: CheckRBAC, Message: fmt.Sprintf("unknown whether %s has the permissions that %s: %s", d.who, does, err)})
				return
			}
			if asked++; !answer.Status.Allowed {
				denied = append(denied, r.sentence(verb, namespace))
			}
		}
	}
	if len(denied) > 0 {
		d.add(Finding{Level: Fail, Check: CheckRBAC, Message: d.who + " may not " + strings.Join(denied, "; "), Remedy: remedy})
		return
	}
	d.ok(CheckRBAC, "", "%s has all %d permissions in the cluster that %s", d.who, asked, does)
}

func (r right) sentence(verb, namespace string) string {
	resource := r.resource
	if r.sub != "" {
		resource += "/" + r.sub
	}
	if r.group != "" {
		resource += "." + r.group
	}
	if namespace != "" {
		resource += " in namespace " + namespace
	}
	return verb + " " + resource
}
