package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/wording"
)

// skewForWarning is a clock difference between this machine and the API server that is worth a warning: versions and
// deadlines depend on the clock.
const skewForWarning = 30 * time.Second

const install = "kamino manifests | kubectl apply --server-side -f -"

func clock(_ context.Context, c *observed) []Finding {
	ahead, isKnown := c.Skew()
	if !isKnown {
		return []Finding{warn("", "the clock of the API server is unknown: the API server sends no time")}
	}
	if ahead.Abs() <= skewForWarning {
		return []Finding{ok("the clocks of this machine and the API server agree")}
	}
	f := warn("synchronize the clocks, for example with NTP",
		"the clocks of this machine and the API server differ by about %s; versions and deadlines depend on the clocks", ahead.Abs().Round(30*time.Second))
	if ahead.Abs() > admission.MaxClockDifference {
		f.Level, f.Reason = Fail, admission.ClockOff
	}
	return []Finding{f}
}

// installation checks for the objects of `kamino manifests`. Missing objects are no failure.
func installation(ctx context.Context, c *observed) (found []Finding) {
	var missing []string
	for _, resource := range []string{"prototypes", "prototypepolicies", "nodeorders"} {
		served, err := c.Served(ctx, resource)
		if err != nil {
			found = append(found, warn("", "unknown whether %s.%s is installed: %s", resource, v1alpha1.GroupVersion.Group, err))
		} else if !served {
			missing = append(missing, resource+"."+v1alpha1.GroupVersion.Group)
		}
	}
	isRead := len(found) == 0
	for _, name := range slices.Compact([]string{c.Namespace, c.pods()}) {
		namespace, err := c.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, "namespace "+name)
		case apierrors.IsForbidden(err):
			isRead = false
			found = append(found, warn("", "existence and pod security level of namespace %s are unknown: %s may not read namespaces", name, c.who))
		case err != nil:
			isRead = false
			found = append(found, warn("", "unknown whether namespace %s exists: %s", name, err))
		case name == c.pods():
			found = append(found, podSecurity(namespace)...)
		}
	}
	c.lacking = len(missing) > 0
	switch {
	case c.lacking:
		found = append(found, warn(install, "Kamino is not completely installed: missing %s", strings.Join(missing, ", ")))
	case c.pods() == c.Namespace:
		found = append(found, warn(install+", and set --generalize-namespace to the new namespace (default "+v1alpha1.DefaultGeneralizeNamespace+")",
			"the generalize pods run in the engine's namespace %s: every account that may create pods there can mount the engine's Secrets", c.Namespace))
	case isRead:
		found = append(found, ok("Kamino's definitions and the namespaces %s and %s exist", c.Namespace, c.pods()))
	}
	return found
}

// definitions finds definitions of another version, as after `helm rollback` alone. Missing definitions are a finding of installation.
func definitions(ctx context.Context, c *observed) []Finding {
	if c.Difference == nil || c.lacking {
		return nil
	}
	difference, err := c.Difference(ctx)
	if apierrors.IsNotFound(err) { // an API server that publishes no schemas
		return nil
	}
	if err != nil {
		return []Finding{warn("", "unknown whether the definitions are those of this version: %s", err)}
	}
	if difference == "" {
		return nil
	}
	return []Finding{warn(v1alpha1.DefinitionsCommand+", or use the kamino of the version in the cluster", "%s, so captures may fail", difference)}
}

// podSecurity warns of a level that refuses the generalize pods.
func podSecurity(namespace *corev1.Namespace) []Finding {
	level := namespace.Labels["pod-security.kubernetes.io/enforce"]
	if level != "restricted" && level != "baseline" {
		return nil
	}
	return []Finding{warn(fmt.Sprintf("kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged, "+
		"or set another namespace with --generalize-namespace", namespace.Name),
		"namespace %s enforces pod security %s; generalize pods are privileged and cannot run there", namespace.Name, level)}
}

// formerPods finds a permission to create generalize pods in the engine's namespace, the default of earlier versions. An
// upgrade keeps the permission for running captures.
func formerPods(ctx context.Context, c *observed) []Finding {
	if c.pods() == c.Namespace {
		return nil
	}
	const role, account = engineRole + "-pods", v1alpha1.GeneralizeServiceAccount
	if _, err := c.Kube.RbacV1().RoleBindings(c.Namespace).Get(ctx, role, metav1.GetOptions{}); err != nil {
		return nil
	}
	policy := "kamino-nodeorders." + c.Namespace
	return []Finding{warn(
		fmt.Sprintf("when no capture of the earlier version is running: "+
			"kubectl -n %s delete --ignore-not-found rolebinding/%s role/%s rolebinding/%s serviceaccount/%s "+
			"validatingadmissionpolicybinding/%s validatingadmissionpolicy/%s", c.Namespace, role, role, account, account, policy, policy),
		"RoleBinding %s/%s lets the engine create pods in its own namespace; only earlier versions need this permission", c.Namespace, role)}
}

// formerBindings finds cluster-wide bindings of earlier versions with names that no manifest has any more, so that an
// upgrade leaves the bindings. Without permission there is no finding: rbac reports the permission.
func formerBindings(ctx context.Context, c *observed) (found []Finding) {
	list, err := c.Kube.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	names := map[string]bool{}
	for _, b := range list.Items {
		names[b.Name] = true
	}
	stale := func(binding, why string) {
		found = append(found, warn("kubectl delete clusterrolebinding "+binding, "ClusterRoleBinding %s %s", binding, why))
	}
	for _, b := range list.Items {
		bound := ""
		if len(b.Subjects) > 0 {
			bound = b.Subjects[0].Namespace
		}
		switch {
		case b.RoleRef.Name == engineRole+"-remove":
			stale(b.Name, "lets Kamino delete any Node that is not Ready; only earlier versions need this permission")
		case b.RoleRef.Name == v1alpha1.GeneralizeServiceAccount:
			stale(b.Name, "lets the service account of generalize pods access NodeOrders in all namespaces; only earlier versions need this permission")
		case b.Name == engineRole && b.RoleRef.Name == engineRole && bound != v1alpha1.DefaultNamespace && names[engineRole+"-"+bound]:
			stale(b.Name, fmt.Sprintf("is from an earlier version, and namespace %s has a new binding", bound))
		}
	}
	return found
}

// engineRole is the name of the engine's cluster-wide role.
const engineRole = "kamino-engine"

// admissionPolicies reports an API server without ValidatingAdmissionPolicies, the second protection of reports. The finding
// is no refusal: a report is trusted for its signature.
func admissionPolicies(_ context.Context, c *observed) []Finding {
	known, err := c.Kube.Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil || slices.ContainsFunc(known.APIResources, func(r metav1.APIResource) bool { return r.Name == "validatingadmissionpolicies" }) {
		return nil
	}
	return []Finding{ok("the API server is older than 1.30 and does not support ValidatingAdmissionPolicy: apply `kamino manifests --no-admission-policy`; " +
		"only the signature then protects the reports of generalize pods")}
}

// kuredLock reports the state of kured's lock, and locks that would not stop captures.
func kuredLock(ctx context.Context, c *observed) []Finding {
	lock, err := kured.Read(ctx, c.Kube, c.Kured, c.Now())
	f := ok("kured is not installed, or reboots no node now")
	switch {
	case err != nil:
		f = warn("", "unknown whether kured is rebooting a node: %s", err)
	case lock.Unknown != "":
		f = warn("let this user read the DaemonSet, remove a lock that kured did not write, or set --kured",
			"unknown whether kured is rebooting a node, so that a capture may drain a second node meanwhile: %s", lock.Unknown)
	case lock.Release != "":
		f = warn("if the node is gone permanently: "+lock.Release, "captures wait: kured holds its lock for node %s, which does not exist", lock.Node)
	case lock.Node != "":
		f = ok("kured holds its lock for node %s: Kamino drains no other node until the node is back", lock.Node)
	}
	return []Finding{f}
}

func nodesInPools(_ context.Context, c *observed) []Finding {
	in := 0
	for _, m := range c.pools {
		in += m.nodes
	}
	f := ok("%d of the cluster's %s belong to %s%s", in, wording.Count(len(c.seen.Nodes), "node"), wording.Count(len(c.pools), "pool"),
		suffix(", but not ", c.outside))
	switch {
	case len(c.seen.Nodes) == 0:
		f = fail("", "check that this is the right cluster: kubectl config current-context", "the cluster has no nodes")
	case c.Cloud == nil:
		f = ok("the cluster has %s", wording.Count(len(c.seen.Nodes), "node"))
	case c.seen.Trouble != nil:
		f = c.refusedByCloud(c.seen.Trouble)
	case c.onlyError != nil:
		f = fail(admission.NotInPool, "run again without a pool name to list the pools", "%s", c.onlyError)
	case len(c.pools) == 0:
		f = fail(admission.NotInPool, c.About.Remedies.NoPool, "none of the cluster's %d nodes belongs to a supported pool%s",
			len(c.seen.Nodes), suffix(", such as ", c.outside))
	}
	return []Finding{f}
}

// suffix joins a lead and a fact; empty without a fact.
func suffix(lead, what string) string {
	if what == "" {
		return ""
	}
	return lead + what
}

// disks checks the driver of the nodes' data disks. The in-tree driver writes the instance's model, as scale-in protection
// does, and one of two concurrent writes fails.
func disks(_ context.Context, c *observed) []Finding {
	if len(c.inTree) == 0 {
		return []Finding{ok("no node has a disk of the in-tree driver; CSI drivers attached %s", wording.Count(c.csi, "volume"))}
	}
	return []Finding{warn(c.About.Remedies.OldDisks,
		"%s (for example %s) with disks of the in-tree driver. The driver and Kamino both update the instance model: "+
			"a conflict is possible, followed by a retry",
		wording.Count(len(c.inTree), "node"), c.inTree[0])}
}

func credential(_ context.Context, c *observed) []Finding {
	if c.Cloud != nil {
		return nil
	}
	return []Finding{fail("", c.About.Remedies.Credential, "no credential for the cloud: %s", c.CloudError)}
}
