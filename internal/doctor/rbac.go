package doctor

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// right is a permission that a process with captures needs.
type right struct {
	group, resource, sub string
	verbs                []string
	in                   permissionScope
}

// permissionScope is the scope of a permission.
type permissionScope int

const (
	everywhere permissionScope = iota
	own                        // in the namespace of the Lease and of saved recipes
	pods                       // in the namespace of the generalize pods
	kubelets                   // in the namespace of the kubelets' Leases
	system                     // of namespace kube-system alone
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
	{"", "namespaces", "", []string{"get"}, system},
	{"storage.k8s.io", "csinodes", "", []string{"list"}, everywhere},
	{"", "services", "", []string{"list"}, everywhere},
	{"coordination.k8s.io", "leases", "", []string{"get", "list", "create", "update", "delete"}, own},
	{"coordination.k8s.io", "leases", "", []string{"get", "list"}, kubelets},
	{"", "pods", "", []string{"create"}, pods},
	{"", "secrets", "", []string{"get", "create"}, own},
	{"kamino.dev", "nodeorders", "", []string{"get", "create", "patch", "delete"}, pods},
	{"", "secrets", "", []string{"create", "delete"}, pods},
	{"authorization.k8s.io", "localsubjectaccessreviews", "", []string{"create"}, pods},
}

// controllerRights are further permissions of a controller, which runs as a service account.
var controllerRights = []right{
	{"kamino.dev", "prototypepolicies", "", []string{"get", "list", "watch"}, everywhere},
	{"kamino.dev", "prototypepolicies", "status", []string{"patch"}, everywhere},
	{"", "pods", "", []string{"watch"}, pods},
	{"kamino.dev", "nodeorders", "", []string{"list", "watch"}, pods},
}

// serviceAccount is the prefix of the names of service accounts.
const serviceAccount = "system:serviceaccount:"

// mayDo asks the API server for a permission of this command's user.
func (c *observed) mayDo(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	answer, err := c.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// rbac asks for the permissions of this command's user. A user who runs captures needs these permissions, and also the
// installer, because RBAC forbids to grant permissions beyond one's own. A service account also needs the controller's.
func rbac(ctx context.Context, c *observed) []Finding {
	wanted, does, remedy := rights, "a capture needs",
		"let a cluster administrator install Kamino, or bind this user to the roles kamino-engine from `kamino manifests`"
	if strings.HasPrefix(c.who, serviceAccount) {
		wanted, does = slices.Concat(rights, controllerRights), "a controller needs"
		remedy = "bind the service account to the roles from `kamino manifests`, or let the chart create the roles (rbac.create, serviceAccount.name)"
	}
	var denied []string
	asked := 0
	for _, r := range wanted {
		for _, verb := range r.verbs {
			namespace := map[permissionScope]string{own: c.Namespace, pods: c.pods(), kubelets: corev1.NamespaceNodeLease, system: metav1.NamespaceSystem}[r.in]
			what := authorizationv1.ResourceAttributes{Group: r.group, Resource: r.resource, Subresource: r.sub, Verb: verb, Namespace: namespace}
			if r.in == system {
				what.Name = namespace
			}
			allowed, err := c.mayDo(ctx, what)
			if err != nil {
				return []Finding{warn("", "unknown whether %s has the permissions that %s: %s", c.who, does, err)}
			}
			if asked++; !allowed {
				denied = append(denied, r.sentence(verb, namespace))
			}
		}
	}
	if len(denied) > 0 {
		return []Finding{fail("", remedy, "%s may not %s", c.who, strings.Join(denied, "; "))}
	}
	return []Finding{ok("%s has all %d permissions in the cluster that %s", c.who, asked, does)}
}

func (r right) sentence(verb, namespace string) string {
	resource := r.resource
	if r.sub != "" {
		resource += "/" + r.sub
	}
	if r.group != "" {
		resource += "." + r.group
	}
	switch {
	case r.in == system:
		resource += " " + namespace
	case namespace != "":
		resource += " in namespace " + namespace
	}
	return verb + " " + resource
}
