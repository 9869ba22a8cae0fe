package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Clock differences between this machine and the API server for a warning and for a failure: versions and deadlines depend
// on the clock.
const (
	skewTold    = 30 * time.Second
	skewTooMuch = 5 * time.Minute
)

const install = "kamino manifests | kubectl apply --server-side -f -"

func (d *Doctor) clock() {
	ahead, heard := d.Skew()
	f := Finding{Level: OK, Check: CheckClock, Message: "the clocks of this machine and the API server agree"}
	if !heard {
		f.Level, f.Message = Warn, "the clock of the API server is unknown: the API server sends no time"
	} else if ahead.Abs() > skewTold {
		f.Level, f.Remedy = Warn, "synchronize the clocks, for example with NTP"
		f.Message = fmt.Sprintf("the clocks of this machine and the API server differ by about %s; versions and deadlines depend on the clocks", ahead.Abs().Round(30*time.Second))
	}
	if ahead.Abs() > skewTooMuch {
		f.Level, f.Reason = Fail, "ClockOff"
	}
	d.add(f)
}

// installation checks for the objects of `kamino manifests`. Missing objects are no failure.
func (d *Doctor) installation(ctx context.Context) {
	var missing []string
	seen := true
	for _, resource := range []string{"prototypes", "prototypepolicies", "orders"} {
		served, err := d.Served(ctx, resource)
		if err != nil {
			d.add(Finding{Level: Warn, Check: CheckInstallation, Message: fmt.Sprintf("unknown whether %s.%s is installed: %s", resource, v1alpha1.GroupVersion.Group, err)})
			seen = false
		} else if !served {
			missing = append(missing, resource+"."+v1alpha1.GroupVersion.Group)
		}
	}
	absent, looked := d.namespaces(ctx)
	missing = append(missing, absent...)
	d.lacking = len(missing) > 0
	switch {
	case len(missing) > 0:
		d.add(Finding{Level: Warn, Check: CheckInstallation, Message: "Kamino is not completely installed: missing " + strings.Join(missing, ", "), Remedy: install})
	case d.pods() == d.Namespace:
		d.add(Finding{Level: Warn, Check: CheckInstallation,
			Message: fmt.Sprintf("the generalize pods run in the engine's namespace %s: every account that may create pods there can mount the engine's Secrets", d.Namespace),
			Remedy:  install + ", and set --generalize-namespace to the new namespace (default " + v1alpha1.DefaultGeneralizeNamespace + ")"})
	case seen && looked:
		d.ok(CheckInstallation, "", "Kamino's definitions and the namespaces %s and %s exist", d.Namespace, d.pods())
	}
}

// formerPods finds a permission to create generalize pods in the engine's namespace, the default of earlier versions. An
// upgrade keeps the permission for running captures.
func formerPods(ctx context.Context, d *Doctor) {
	if d.pods() == d.Namespace {
		return
	}
	const role, account = engineRole + "-pods", v1alpha1.GeneralizeServiceAccount
	if _, err := d.Kube.RbacV1().RoleBindings(d.Namespace).Get(ctx, role, metav1.GetOptions{}); err != nil {
		return
	}
	policy := "kamino-orders." + d.Namespace
	d.add(Finding{Level: Warn, Check: CheckInstallation,
		Message: fmt.Sprintf("RoleBinding %s/%s lets the engine create pods in its own namespace; only earlier versions need this permission", d.Namespace, role),
		Remedy: fmt.Sprintf("when no capture of the earlier version is running: kubectl -n %s delete --ignore-not-found rolebinding/%s role/%s rolebinding/%s serviceaccount/%s "+
			"validatingadmissionpolicybinding/%s validatingadmissionpolicy/%s", d.Namespace, role, role, account, account, policy, policy)})
}

// bindings finds cluster-wide bindings of earlier versions with names that no manifest has any more, so that an upgrade
// leaves the bindings. Without permission, bindings reports nothing: rbac reports the permission.
func (d *Doctor) bindings(ctx context.Context) {
	list, err := d.Kube.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	names := map[string]bool{}
	for _, b := range list.Items {
		names[b.Name] = true
	}
	for _, b := range list.Items {
		bound := ""
		if len(b.Subjects) > 0 {
			bound = b.Subjects[0].Namespace
		}
		switch {
		case b.RoleRef.Name == v1alpha1.GeneralizeServiceAccount:
			d.stale(b.Name, "lets the service account of generalize pods access Orders in all namespaces; only earlier versions need this permission")
		case b.Name == engineRole && b.RoleRef.Name == engineRole && bound != v1alpha1.DefaultNamespace && names[engineRole+"-"+bound]:
			d.stale(b.Name, fmt.Sprintf("is from an earlier version, and namespace %s has a new binding", bound))
		}
	}
}

// engineRole is the name of the engine's cluster-wide role.
const engineRole = "kamino-engine"

func (d *Doctor) stale(binding, why string) {
	d.add(Finding{Level: Warn, Check: CheckInstallation, Message: fmt.Sprintf("ClusterRoleBinding %s %s", binding, why),
		Remedy: "kubectl delete clusterrolebinding " + binding})
}

// admission reports an API server without ValidatingAdmissionPolicies, the second protection of reports. The finding is no
// refusal: a report is trusted for its signature.
func (d *Doctor) admission() {
	known, err := d.Kube.Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil || slices.ContainsFunc(known.APIResources, func(r metav1.APIResource) bool { return r.Name == "validatingadmissionpolicies" }) {
		return
	}
	d.ok(CheckInstallation, "", "the API server is older than 1.30 and does not support ValidatingAdmissionPolicy: apply `kamino manifests --no-admission-policy`; "+
		"only the signature then protects the reports of generalize pods")
}

// unreadable finds policies and Prototypes with fields that cannot be decoded.
func unreadable(policies []v1alpha1.PrototypePolicy, prototypes []v1alpha1.Prototype) []Finding {
	var found []Finding
	find := func(message, remedy string) {
		if message != "" {
			found = append(found, Finding{Level: Fail, Check: CheckInstallation, Reason: v1alpha1.PolicyUnreadable,
				Message: message + "; Kamino skips the object and processes all others", Remedy: remedy})
		}
	}
	for i := range policies {
		p := &policies[i]
		find(p.Unreadable.Of("PrototypePolicy", p.Name), "kubectl edit prototypepolicy "+p.Name)
	}
	for i := range prototypes {
		p := &prototypes[i]
		remedy := "kamino cancel " + p.Name
		if p.Status.Terminal() {
			remedy = "kubectl delete prototype " + p.Name
		}
		find(p.Unreadable.Of("Prototype", p.Name), remedy)
	}
	return found
}

// pods is the namespace of the generalize pods.
func (d *Doctor) pods() string { return cmp.Or(d.PodNamespace, v1alpha1.DefaultGeneralizeNamespace) }

// namespaces lists missing namespaces, and checks the Pod Security of the generalize pods' namespace. looked reports a
// complete read.
func (d *Doctor) namespaces(ctx context.Context) (missing []string, looked bool) {
	looked = true
	for _, name := range slices.Compact([]string{d.Namespace, d.pods()}) {
		namespace, err := d.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, "namespace "+name)
			continue
		case apierrors.IsForbidden(err):
			looked = false
			d.add(Finding{Level: Warn, Check: CheckInstallation, Message: fmt.Sprintf(
				"existence and pod security level of namespace %s are unknown: %s may not read namespaces", name, d.who)})
			continue
		case err != nil:
			looked = false
			d.add(Finding{Level: Warn, Check: CheckInstallation, Message: fmt.Sprintf("unknown whether namespace %s exists: %s", name, err)})
			continue
		}
		level := namespace.Labels["pod-security.kubernetes.io/enforce"]
		if name == d.pods() && (level == "restricted" || level == "baseline") {
			d.add(Finding{Level: Warn, Check: CheckInstallation,
				Message: fmt.Sprintf("namespace %s enforces pod security %s; generalize pods are privileged and cannot run there", name, level),
				Remedy: fmt.Sprintf("kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged, "+
					"or set another namespace with --generalize-namespace", name)})
		}
	}
	return missing, looked
}

// kured reports the state of kured's lock, and locks that would not stop captures.
func (d *Doctor) kured(ctx context.Context) {
	lock, err := kured.Read(ctx, d.Kube, d.Kured, d.Now())
	switch {
	case err != nil:
		d.add(Finding{Level: Warn, Check: CheckKured, Message: fmt.Sprintf("unknown whether kured is rebooting a node: %s", err)})
	case lock.Unknown != "":
		d.add(Finding{Level: Warn, Check: CheckKured, Message: fmt.Sprintf("unknown whether kured is rebooting a node, so that a capture may drain a second node meanwhile: %s", lock.Unknown),
			Remedy: "let this user read the DaemonSet, remove a lock that kured did not write, or set --kured"})
	case lock.Release != "":
		d.add(Finding{Level: Warn, Check: CheckKured, Message: fmt.Sprintf("captures wait: kured holds its lock for node %s, which does not exist", lock.Node),
			Remedy: "if the node is gone permanently: " + lock.Release})
	case lock.Node != "":
		d.ok(CheckKured, "", "kured holds its lock for node %s: Kamino drains no other node until the node is back", lock.Node)
	default:
		d.ok(CheckKured, "", "kured is not installed, or reboots no node now")
	}
}

func (d *Doctor) lease(ctx context.Context) {
	holder, err := d.Holder(ctx)
	switch {
	case err != nil:
		d.add(Finding{Level: Warn, Check: CheckLease, Message: fmt.Sprintf("the holder of the Lease is unknown: %s", err)})
	case holder == "":
		d.ok(CheckLease, "", "no controller is running: `kamino capture` does the work")
	default:
		d.ok(CheckLease, "", "%s executes captures", holder)
	}
}

func (d *Doctor) nodesFound() {
	in := 0
	for _, m := range d.pools {
		in += m.nodes
	}
	switch {
	case d.nodes == 0:
		d.add(Finding{Level: Fail, Check: CheckNodes, Message: "the cluster has no nodes", Remedy: "check that this is the right cluster: kubectl config current-context"})
	case d.Cloud == nil:
		d.ok(CheckNodes, "", "the cluster has %s", wording.Count(d.nodes, "node"))
	case d.unplaced != nil:
		d.add(d.refusedByCloud("", d.unplaced))
	case d.unmeant != nil:
		d.add(Finding{Level: Fail, Check: CheckNodes, Reason: "NotInPool", Message: d.unmeant.Error(), Remedy: "run again without a pool name to list the pools"})
	case len(d.pools) == 0:
		d.add(Finding{Level: Fail, Check: CheckNodes, Reason: "NotInPool",
			Message: fmt.Sprintf("none of the cluster's %d nodes belongs to a supported pool%s", d.nodes, suffix(", such as ", d.outside)),
			Remedy:  d.About.Remedies.NoPool})
	default:
		d.ok(CheckNodes, "", "%d of the cluster's %s belong to %s%s", in, wording.Count(d.nodes, "node"), wording.Count(len(d.pools), "pool"), suffix(", but not ", d.outside))
	}
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
func (d *Doctor) disks() {
	if len(d.inTree) == 0 {
		d.ok(CheckDisks, "", "no node has a disk of the in-tree driver; CSI drivers attached %s", wording.Count(d.csi, "volume"))
		return
	}
	d.add(Finding{Level: Warn, Check: CheckDisks,
		Message: fmt.Sprintf("%s (for example %s) with disks of the in-tree driver. The driver and Kamino both update the instance model: a conflict is possible, followed by a retry", wording.Count(len(d.inTree), "node"), d.inTree[0]),
		Remedy:  d.About.Remedies.OldDisks})
}
