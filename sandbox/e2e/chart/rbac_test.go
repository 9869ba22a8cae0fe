package chart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/sandbox/chart"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// request is "VERB RESOURCE[.GROUP][/SUBRESOURCE] [NAMESPACE[/NAME]]": "get leases.coordination.k8s.io ns/name".
// A namespace of "-" is none: the object is the cluster's.
type request string

func (r request) attributes() *authorizationv1.ResourceAttributes {
	fields := strings.Fields(string(r))
	a := &authorizationv1.ResourceAttributes{Verb: fields[0]}
	resource, sub, _ := strings.Cut(fields[1], "/")
	a.Subresource = sub
	a.Resource, a.Group, _ = strings.Cut(resource, ".")
	if len(fields) > 2 {
		a.Namespace, a.Name, _ = strings.Cut(fields[2], "/")
		a.Namespace = strings.TrimPrefix(a.Namespace, "-")
	}
	return a
}

// TestPermissions reviews the rights of each of the release's identities.
func TestPermissions(t *testing.T) {
	skipOtherClouds(t)
	helm := newHelm(t, "rbac", "restricted")
	if err := helm.install(t.Context(), "may", chart.Values{"image": chart.Values{"repository": simulated}}, false); err != nil {
		t.Fatal(err)
	}
	const own, pods = "rbac", "may-kamino-generalize"
	for account, test := range map[string]struct{ may, mayNot []request }{
		own + ":may-kamino": {
			may: []request{
				"list prototypes.kamino.dev", "watch prototypes.kamino.dev", "create prototypes.kamino.dev", "delete prototypes.kamino.dev",
				"update prototypes.kamino.dev/status",
				"watch prototypepolicies.kamino.dev", "update prototypepolicies.kamino.dev/status",
				"list nodes", "watch nodes", "patch nodes", "list pods", "create pods/eviction kube-system/x",
				"list poddisruptionbudgets.policy", "get leases.coordination.k8s.io kube-node-lease/x", "list leases.coordination.k8s.io kube-node-lease",
				"list daemonsets.apps", "list csinodes.storage.k8s.io", "list services", "get namespaces -/kube-system", "list events", "create events.events.k8s.io default",
				"create leases.coordination.k8s.io " + own, "update leases.coordination.k8s.io " + own + "/kamino-controller",
				"list leases.coordination.k8s.io " + own, "update leases.coordination.k8s.io " + own + "/node-x",
				"delete leases.coordination.k8s.io " + own + "/node-x", "create secrets " + own, "get secrets " + own + "/x-recipe",
				"create pods " + pods, "delete pods " + pods + "/generalize-x", "watch pods " + pods,
				"create localsubjectaccessreviews.authorization.k8s.io " + pods,
				"get serviceaccounts " + pods + "/kamino-generalize",
				"create nodeorders.kamino.dev " + pods, "watch nodeorders.kamino.dev " + pods, "delete nodeorders.kamino.dev " + pods + "/generalize-x",
				"create secrets " + pods, "delete secrets " + pods + "/generalize-x",
			},
			mayNot: []request{
				"update prototypes.kamino.dev/finalizers", "create subjectaccessreviews.authorization.k8s.io",
				"create localsubjectaccessreviews.authorization.k8s.io " + own,
				"create pods " + own, "create pods kube-system", "create pods default", "create pods/exec " + pods, "create deployments.apps " + own,
				"list secrets " + own, "get secrets kube-system/x", "get secrets " + pods + "/x", "delete secrets " + own + "/x",
				"update secrets " + own + "/x-recipe", "patch secrets " + own + "/x-recipe", "list secrets " + pods, "update secrets " + pods + "/x",
				"update nodeorders.kamino.dev " + pods + "/x", "patch nodeorders.kamino.dev/status " + pods + "/x", "create nodeorders.kamino.dev " + own,
				"delete pods kube-system/x", "delete pods " + own + "/x",
				"delete nodes -/x", "get namespaces -/default", "list namespaces", "list persistentvolumes", "get persistentvolumeclaims default/x",
				"create nodes", "update nodes/status", "get nodes/proxy",
				"update prototypepolicies.kamino.dev", "create prototypepolicies.kamino.dev", "delete prototypepolicies.kamino.dev",
				"update leases.coordination.k8s.io kube-node-lease/x",
				"update customresourcedefinitions.apiextensions.k8s.io -/prototypes.kamino.dev", "create serviceaccounts/token " + pods + "/kamino-generalize",
				"create clusterrolebindings.rbac.authorization.k8s.io", "bind clusterroles.rbac.authorization.k8s.io", "impersonate users",
			},
		},
		pods + ":kamino-generalize": {
			may: []request{"get nodeorders.kamino.dev " + pods + "/x", "patch nodeorders.kamino.dev/status " + pods + "/x"},
			mayNot: []request{
				"get prototypes.kamino.dev -/x", "patch prototypes.kamino.dev -/x", "list nodeorders.kamino.dev " + pods,
				"patch nodeorders.kamino.dev " + pods + "/x",
				"create nodeorders.kamino.dev " + pods, "delete nodeorders.kamino.dev " + pods + "/x", "get nodeorders.kamino.dev " + own + "/x",
				"list prototypes.kamino.dev", "create prototypes.kamino.dev", "delete prototypes.kamino.dev", "patch prototypes.kamino.dev/status",
				"get nodes -/x", "patch nodes -/x", "list pods", "create pods " + pods, "get secrets " + pods + "/x", "get secrets " + own + "/x",
				"get prototypepolicies.kamino.dev -/x", "get leases.coordination.k8s.io " + own + "/kamino-controller",
				"create leases.coordination.k8s.io " + own, "update leases.coordination.k8s.io " + own + "/node-x", "create leases.coordination.k8s.io " + pods,
			},
		},
		own + ":default": {mayNot: []request{"list nodes", "get prototypes.kamino.dev"}},
	} {
		t.Run(account, func(t *testing.T) {
			as := impersonate(t, "system:serviceaccount:"+account)
			// Rights apply a moment after their creation.
			sandboxtest.Eventually(t, "the account has its rights", func() (bool, string) {
				missing := slices.DeleteFunc(slices.Clone(test.may), func(r request) bool { return allowed(t, as, r) })
				return len(missing) == 0, fmt.Sprintf("it may not %q", missing)
			})
			for _, r := range test.mayNot {
				if allowed(t, as, r) {
					t.Errorf("it may %s", r)
				}
			}
		})
	}
	// The doctor comes to the same end: whether there are pools to examine is another matter.
	messages := sandbox.Run(t, nil, "kamino", "doctor", "--namespace", own, "--generalize-namespace", pods, "--as",
		"system:serviceaccount:"+own+":may-kamino").Stdout
	if !regexp.MustCompile(`has all \d+ permissions in the cluster that a controller needs`).MatchString(messages) {
		t.Errorf("kamino doctor says of the release's account:\n%s", messages)
	}
	if err := helm.uninstall("may"); err != nil {
		t.Fatal(err)
	}
}

func impersonate(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	config := sandbox.Config()
	namespace := strings.Split(user, ":")[2]
	config.Impersonate = rest.ImpersonationConfig{
		UserName: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func allowed(t *testing.T, as kubernetes.Interface, r request) bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: r.attributes()}}
	answer, err := as.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Allowed
}
