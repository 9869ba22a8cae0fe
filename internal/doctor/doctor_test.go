package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial/trialnode"
)

var now = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// newDoctor is a sound cluster with one pool of two nodes; tests break the cluster.
func newDoctor(t *testing.T, spec memory.PoolSpec) (*Doctor, *memory.Cloud, cloud.PoolID) {
	t.Helper()
	return newDoctorOf(t, spec, memory.Config{Now: func() time.Time { return now }, NoCopy: true})
}

// newDoctorOf is newDoctor with another cloud.
func newDoctorOf(t *testing.T, spec memory.PoolSpec, config memory.Config) (*Doctor, *memory.Cloud, cloud.PoolID) {
	t.Helper()
	memoryCloud := memory.New(config)
	spec.Name = "pool1"
	pool := memoryCloud.AddPool(spec)
	kube := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ours"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
	for _, name := range []string{"a", "b"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"agentpool": "pool1", "kubernetes.azure.com/role": "agent"},
			Annotations: map[string]string{"weave.works/kured-most-recent-reboot-needed": now.Format(time.RFC3339)}}}
		n.Spec.ProviderID = string(memoryCloud.AddInstance(pool, name))
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := kube.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	kube.PrependReactor("create", "pods", func(a kubetesting.Action) (bool, runtime.Object, error) { // the tracker knows no dry run
		return true, a.(kubetesting.CreateAction).GetObject(), nil
	})
	kube.PrependReactor("list", "pods", func(a kubetesting.Action) (bool, runtime.Object, error) { // nor a field selector
		found, err := kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), a.GetNamespace())
		list := &corev1.PodList{}
		for _, pod := range found.(*corev1.PodList).Items {
			if node, asked := a.(kubetesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("spec.nodeName"); !asked || pod.Spec.NodeName == node {
				list.Items = append(list.Items, pod)
			}
		}
		return true, list, err
	})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "theirs", Name: v1alpha1.GeneralizeServiceAccount}}
	if err := kube.Tracker().Add(account); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := ctrlfake.NewClientBuilder().WithScheme(scheme).Build()
	allow(kube, true)
	d := &Doctor{
		About: registry.All()[0],
		Kube:  kube, Cloud: memoryCloud, Namespace: "ours", PodNamespace: "theirs", Now: func() time.Time { return now },
		Served:     func(context.Context, string) (bool, error) { return true, nil },
		Skew:       func() (time.Duration, bool) { return 0, true },
		Lease:      func(context.Context) (attention.Lease, error) { return attention.Lease{Known: true}, nil },
		Prototypes: func(context.Context) ([]v1alpha1.Prototype, error) { return nil, nil },
	}
	d.Case = func(ctx context.Context, p *v1alpha1.Prototype, seen *membership.Cluster) (*admission.Case, error) {
		engine := &capture.Engine{Client: objects, Kube: kube, Cloud: memoryCloud.Provider, Namespace: "ours", PodNamespace: "theirs", Image: "kamino:test", Now: d.Now, Log: logr.Discard(),
			TrialObserver: &trialnode.Observer{Kube: kube, Namespace: "theirs", Image: "kamino:test", Same: memoryCloud.SameInstance}}
		return engine.Case(ctx, p, seen)
	}
	return d, memoryCloud, pool
}

func allow(kube *fake.Clientset, allowed bool) {
	kube.PrependReactor("create", "localsubjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		review := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.LocalSubjectAccessReview).DeepCopy()
		review.Status.Allowed = allowed
		return true, review, nil
	})
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		review := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = allowed
		return true, review, nil
	})
}

func examine(t *testing.T, d *Doctor) Report {
	t.Helper()
	report, err := d.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if !slices.Contains(Checks(), f.Check) {
			t.Errorf("%q is no check that is listed", f.Check)
		}
		if (f.Level == OK) == (f.Remedy != "") && !strings.Contains(f.Message, "unknown") {
			t.Errorf("%s of %s: a remedy is for what is not in order, and all of that has one: %q", f.Level, f.Check, f.Message)
		}
	}
	return report
}

// worst is the level of a check, and its message.
func worst(report Report, check string) (Level, string) {
	level, says := OK, ""
	for _, f := range report.Findings {
		if f.Check == check && (says == "" || f.Level == Fail || f.Level == Warn && level == OK) {
			level, says = f.Level, f.Message+" "+f.Remedy
		}
	}
	return level, says
}

func TestASoundCluster(t *testing.T) {
	d, _, _ := newDoctor(t, memory.PoolSpec{})
	report := examine(t, d)
	if report.Warnings+report.Failures > 0 || report.OK != len(report.Findings) {
		t.Errorf("%+v", report)
	}
	for _, check := range Checks() {
		if !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Check == check }) && check != CheckImages { // of large pools only
			t.Errorf("nothing is said of %s", check)
		}
	}
}

// TestAnAPIServerWithoutAdmissionPolicies is reported, and is no failure.
func TestAnAPIServerWithoutAdmissionPolicies(t *testing.T) {
	for _, knows := range []bool{true, false} {
		d, _, _ := newDoctor(t, memory.PoolSpec{})
		kinds := []metav1.APIResource{{Name: "mutatingwebhookconfigurations"}}
		if knows {
			kinds = append(kinds, metav1.APIResource{Name: "validatingadmissionpolicies"})
		}
		d.Kube.(*fake.Clientset).Resources = []*metav1.APIResourceList{{GroupVersion: "admissionregistration.k8s.io/v1", APIResources: kinds}}
		report := examine(t, d)
		reported := slices.ContainsFunc(report.Findings, func(f Finding) bool { return strings.Contains(f.Message, "ValidatingAdmissionPolicy") })
		if reported == knows || report.Warnings+report.Failures > 0 {
			t.Errorf("knows: %t, reported: %t, %+v", knows, reported, report)
		}
	}
}

// TestBindingsOfEarlierVersions: doctor reports exactly the bindings that an upgrade leaves, with one command.
func TestBindingsOfEarlierVersions(t *testing.T) {
	binding := func(name, role, namespace string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: role, Namespace: namespace}},
		}
	}
	for _, c := range []struct {
		name     string
		bindings []*rbacv1.ClusterRoleBinding
		stale    string
	}{
		{"as installed", []*rbacv1.ClusterRoleBinding{binding("kamino-engine", "kamino-engine", "kamino-system")}, ""},
		{"in two namespaces", []*rbacv1.ClusterRoleBinding{
			binding("kamino-engine", "kamino-engine", "kamino-system"), binding("kamino-engine-ours", "kamino-engine", "ours")}, ""},
		{"the pods' account", []*rbacv1.ClusterRoleBinding{binding("kamino-generalize", "kamino-generalize", "kamino-system")}, "kamino-generalize"},
		{"elsewhere", []*rbacv1.ClusterRoleBinding{
			binding("kamino-engine", "kamino-engine", "ours"), binding("kamino-engine-ours", "kamino-engine", "ours")}, "kamino-engine"},
		{"not upgraded yet", []*rbacv1.ClusterRoleBinding{binding("kamino-engine", "kamino-engine", "ours")}, ""},
		{"another owner's", []*rbacv1.ClusterRoleBinding{binding("cluster-admin", "cluster-admin", "")}, ""},
	} {
		d, _, _ := newDoctor(t, memory.PoolSpec{})
		for _, b := range c.bindings {
			if err := d.Kube.(*fake.Clientset).Tracker().Add(b); err != nil {
				t.Fatal(err)
			}
		}
		var remedies []string
		for _, f := range examine(t, d).Findings {
			if f.Check == CheckInstallation && f.Level == Warn {
				remedies = append(remedies, strings.TrimPrefix(f.Remedy, "kubectl delete clusterrolebinding "))
			}
		}
		if got := strings.Join(remedies, " "); got != c.stale {
			t.Errorf("%s: %q is to be deleted, want %q", c.name, got, c.stale)
		}
	}
}

// TestReservationsAndLeftovers are warnings with the command that solves them; nodes of a running capture are not reported.
func TestReservationsAndLeftovers(t *testing.T) {
	d, _, pool := newDoctor(t, memory.PoolSpec{})
	kube := d.Kube.(*fake.Clientset)
	reserve := func(name, reservation string) {
		n, err := kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := v1alpha1.ReservationOf(map[string]string{v1alpha1.ReservationAnnotation: reservation})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (node.Reservations{Kube: kube, Namespace: "ours"}).Note(t.Context(), n, *r); err != nil {
			t.Fatal(err)
		}
	}
	working := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	working.Status.Phase, working.Spec.Donor.NodeName = v1alpha1.PhaseDraining, "a"
	d.Prototypes = func(context.Context) ([]v1alpha1.Prototype, error) { return []v1alpha1.Prototype{working}, nil }
	reserve("a", `{"kind":"Prototype","name":"p","uid":"u","reservedAt":"2026-03-14T11:00:00Z"}`)
	report := examine(t, d)
	if calm := findings(report, CheckAttention); len(calm) > 0 {
		t.Errorf("beside a capture that waits: %v", calm)
	}
	if level, says := worst(report, CheckLease); level != Warn || !strings.Contains(says, "No Kamino process works") {
		t.Errorf("a capture without a process: %s %s", level, says)
	}
	d.Lease = func(context.Context) (attention.Lease, error) {
		return attention.Lease{Known: true, Holder: "the controller", Sweeps: true}, nil
	}
	if level, says := worst(examine(t, d), CheckReservations); level != OK || !strings.Contains(says, "1 node is reserved by running captures") {
		t.Errorf("a capture at work: %s %s", level, says)
	}
	reserve("b", `{"kind":"Prototype","name":"q","uid":"gone","reservedAt":"2026-03-14T11:00:00Z"}`)
	if level, says := worst(examine(t, d), CheckReservations); level != Warn ||
		says != "Node b is reserved, and no running capture releases it. Prototype q is deleted or has ended. Next: the controller returns the node within minutes kamino return-node b" {
		t.Errorf("a capture that is gone: %s %s", level, says)
	}
	reserve("b", `{"kind":"Prototype","name":"p","uid":"u"}`)
	d.Leftovers = func(_ context.Context, pools []cloud.PoolID, _ *membership.Cluster) ([]reservations.Leftover, error) {
		if !slices.Equal(pools, []cloud.PoolID{pool}) {
			t.Errorf("asked of %v", pools)
		}
		return []reservations.Leftover{{Kind: reservations.Snapshot, Name: "s", Prototype: "q", UID: "gone"}}, nil
	}
	if level, says := worst(examine(t, d), CheckReservations); level != Warn ||
		!strings.HasPrefix(says, "An ended capture left snapshot s. Prototype q is deleted. Next: the controller deletes leftovers within minutes kamino return-node --leftovers") {
		t.Errorf("a snapshot is left: %s %s", level, says)
	}
}

func TestRightsAreAskedWhereTheyAreUsed(t *testing.T) {
	d, _, _ := newDoctor(t, memory.PoolSpec{})
	if level, says := worst(examine(t, d), CheckInstallation); level != OK || !strings.Contains(says, "ours and theirs") {
		t.Errorf("%s: %s", level, says)
	}
	asked := map[string]string{}
	for _, a := range d.Kube.(*fake.Clientset).Actions() {
		if create, is := a.(kubetesting.CreateAction); is {
			if review, is := create.GetObject().(*authorizationv1.SelfSubjectAccessReview); is {
				in := review.Spec.ResourceAttributes
				asked[in.Verb+" "+in.Resource+"/"+in.Subresource] = in.Namespace
			}
		}
	}
	for right, namespace := range map[string]string{
		"create pods/": "theirs", "create pods/eviction": "", "create leases/": "ours", "get secrets/": "ours", "delete secrets/": "theirs",
		"create nodeorders/": "theirs",
	} {
		if got, was := asked[right]; !was || got != namespace {
			t.Errorf("%s is asked of namespace %q, want %q", right, got, namespace)
		}
	}
}

func TestProblemsAreFound(t *testing.T) {
	away := &cloud.Error{Kind: cloud.Unavailable, Op: "look"}
	for name, c := range map[string]struct {
		check string
		level Level
		says  string
		spec  memory.PoolSpec
		spoil func(d *Doctor, memoryCloud *memory.Cloud, pool cloud.PoolID)
	}{
		"clock far off": {CheckClock, Fail, "differ by about 10m0s", memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			d.Skew = func() (time.Duration, bool) { return -10 * time.Minute, true }
		}},
		"clock off": {CheckClock, Warn, "differ by about 1m0s", memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			d.Skew = func() (time.Duration, bool) { return time.Minute, true }
		}},
		"not installed": {CheckInstallation, Warn, "missing prototypes.kamino.dev", memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			d.Served = func(context.Context, string) (bool, error) { return false, nil }
		}},
		"no namespace": {CheckInstallation, Warn, "missing namespace elsewhere", memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			d.Namespace = "elsewhere"
		}},
		"no namespace for the pods": {CheckInstallation, Warn, "missing namespace elsewhere", memory.PoolSpec{},
			func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
				d.PodNamespace = "elsewhere"
			}},
		"no namespace by default": {CheckInstallation, Warn, "missing namespace kamino-generalize", memory.PoolSpec{},
			func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
				d.PodNamespace = ""
			}},
		"one namespace": {CheckInstallation, Warn, "every account that may create pods there can mount the engine's Secrets", memory.PoolSpec{},
			func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
				d.Namespace = "theirs"
			}},
		"pods in the engine's namespace before": {CheckInstallation, Warn, "kubectl -n ours delete --ignore-not-found rolebinding/kamino-engine-pods",
			memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
				_ = d.Kube.(*fake.Clientset).Tracker().Add(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "kamino-engine-pods"}})
			}},
		"policies that cannot be listed": {CheckInstallation, Warn, "unknown whether policies need more permissions: no such right",
			memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
				d.Policies = func(context.Context) ([]v1alpha1.PrototypePolicy, error) { return nil, errors.New("no such right") }
			}},
		"no rights": {CheckRBAC, Fail, "may not get prototypes.kamino.dev", memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			allow(d.Kube.(*fake.Clientset), false)
		}},
		"no credential": {CheckCredential, Fail, "no secret", memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			d.Cloud, d.CloudError = nil, errors.New("there is no secret")
		}},
		"a cloud that is away": {CheckCredential, Fail, "network path", memory.PoolSpec{}, func(d *Doctor, memoryCloud *memory.Cloud, _ cloud.PoolID) {
			d.Cloud = memory.NewFaulty(memoryCloud, func(memory.Call) memory.Outcome { return memory.Outcome{Err: away} })
		}},
		"a permission": {CheckPermissions, Fail, "EnsureSnapshot", memory.PoolSpec{}, func(_ *Doctor, memoryCloud *memory.Cloud, _ cloud.PoolID) {
			memoryCloud.Forbid("EnsureSnapshot")
		}},
		"permissions that can't be listed": {CheckPermissions, Warn, "may not list its own", memory.PoolSpec{},
			func(_ *Doctor, memoryCloud *memory.Cloud, _ cloud.PoolID) {
				memoryCloud.Forbid("Permissions")
			}},
		"a pool of the wrong kind": {CheckPool, Fail, "set it to Manual",
			memory.PoolSpec{Refusals: []cloud.Refusal{{Reason: "X", Message: "the policy is Automatic: set it to Manual"}}},
			func(*Doctor, *memory.Cloud, cloud.PoolID) {}},
		"a pool of one": {CheckPool, Fail, "grow the pool", memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			_ = d.Kube.(*fake.Clientset).Tracker().Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", "b")
		}},
		"no pool": {CheckNodes, Fail, `pool "other" not found; did you mean pool1?`, memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			d.Only = "other"
		}},
		"Machines of Cluster API's": {CheckNodes, OK, "1 pool, but not node b: the node is Machine fleet/md-0 of Cluster API's cluster c1",
			memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
				n, _ := d.Kube.CoreV1().Nodes().Get(context.Background(), "b", metav1.GetOptions{}) //nolint:usetesting // It has no test at hand.
				n.Spec.ProviderID = "elsewhere:///vm"
				n.Annotations = map[string]string{"cluster.x-k8s.io/machine": "md-0", "cluster.x-k8s.io/cluster-namespace": "fleet",
					"cluster.x-k8s.io/cluster-name": "c1"}
				_ = d.Kube.(*fake.Clientset).Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, "")
			}},
		"a recipe that names the definition": {CheckVersions, Warn, "pins the recipe", memory.PoolSpec{Latest: true},
			func(_ *Doctor, memoryCloud *memory.Cloud, pool cloud.PoolID) {
				memoryCloud.AddVersion(pool, memory.VersionSpec{Version: "2026.03.01"})
			}},
		"a quarantined recipe": {CheckAttention, Fail, "kamino restore pool1", memory.PoolSpec{},
			func(_ *Doctor, memoryCloud *memory.Cloud, pool cloud.PoolID) {
				memoryCloud.AddVersion(pool, memory.VersionSpec{Version: "2026.03.01", Tags: map[string]string{cloud.TagQuarantined: "bad"}})
				memoryCloud.ChangeRecipe(pool, string(pool)+"/versions/2026.03.01")
			}},
		"no patches": {CheckPatching, Warn, "--annotate-nodes", memory.PoolSpec{}, func(d *Doctor, _ *memory.Cloud, _ cloud.PoolID) {
			for _, name := range []string{"a", "b"} {
				n, _ := d.Kube.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{}) //nolint:usetesting // It has no test at hand.
				n.Annotations = nil
				_ = d.Kube.(*fake.Clientset).Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, "")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, memoryCloud, pool := newDoctor(t, c.spec)
			c.spoil(d, memoryCloud, pool)
			level, says := worst(examine(t, d), c.check)
			if level != c.level || !strings.Contains(says, c.says) {
				t.Errorf("%s is %s and says %q, want %s and %q", c.check, level, says, c.level, c.says)
			}
		})
	}
}

// TestAMissingPermissionIsNotContradicted: a pool with a missing permission is never called sound.
// TestNoCheckIsOKWithoutItsRead: a check without its read reports the error, and never OK.
func TestNoCheckIsOKWithoutItsRead(t *testing.T) {
	lost := errors.New("the read is lost")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "these"}, "", lost)
	fails := func(verb, resource string) func(d *Doctor) {
		return func(d *Doctor) {
			d.Kube.(*fake.Clientset).PrependReactor(verb, resource, func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
		}
	}
	for name, c := range map[string]struct {
		check string
		lose  func(d *Doctor)
	}{
		"leases of reservations": {CheckReservations, fails("list", "leases")},
		"leftovers": {CheckReservations, func(d *Doctor) {
			d.Leftovers = func(context.Context, []cloud.PoolID, *membership.Cluster) ([]reservations.Leftover, error) {
				return nil, lost
			}
		}},
		"prototypes": {CheckReservations, func(d *Doctor) {
			d.Prototypes = func(context.Context) ([]v1alpha1.Prototype, error) { return nil, forbidden }
		}},
		"kinds": {CheckInstallation, func(d *Doctor) {
			d.Served = func(context.Context, string) (bool, error) { return false, lost }
		}},
		"namespaces": {CheckInstallation, fails("get", "namespaces")},
		"the Lease": {CheckLease, func(d *Doctor) {
			d.Lease = func(context.Context) (attention.Lease, error) { return attention.Lease{}, lost }
		}},
		"rights":    {CheckRBAC, fails("create", "selfsubjectaccessreviews")},
		"kured":     {CheckKured, func(d *Doctor) { d.Kured = "kube-system/kured"; fails("get", "daemonsets")(d) }},
		"the clock": {CheckClock, func(d *Doctor) { d.Skew = func() (time.Duration, bool) { return 0, false } }},
		"the pool":  {CheckVersions, func(d *Doctor) { d.Cloud.(*memory.Cloud).Forbid("Images") }},
	} {
		d, _, _ := newDoctor(t, memory.PoolSpec{})
		c.lose(d)
		found := 0
		for _, f := range examine(t, d).Findings {
			if f.Check != c.check {
				continue
			}
			found++
			if f.Level == OK {
				t.Errorf("%s cannot be read, and %s is ok: %s", name, c.check, f.Message)
			}
		}
		if found == 0 {
			t.Errorf("%s cannot be read, and nothing is said of %s", name, c.check)
		}
	}
}

// TestNoCaptureIsLostWithoutList: without the list of Prototypes, doctor does not call a capture lost.
func TestNoCaptureIsLostWithoutList(t *testing.T) {
	d, _, _ := newDoctor(t, memory.PoolSpec{})
	n, err := d.Kube.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := v1alpha1.Reservation{Holder: v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "p", UID: "u"}}
	if _, err := (node.Reservations{Kube: d.Kube, Namespace: "ours"}).Note(t.Context(), n, r); err != nil {
		t.Fatal(err)
	}
	d.Prototypes = func(context.Context) ([]v1alpha1.Prototype, error) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "prototypes"}, "", nil)
	}
	for _, f := range examine(t, d).Findings {
		if f.Check == CheckReservations && !strings.HasPrefix(f.Message, "unknown whether running captures reserve nodes: ") {
			t.Errorf("%s: %s", f.Level, f.Message)
		}
	}
}

func TestAMissingPermissionIsNotContradicted(t *testing.T) {
	d, memoryCloud, _ := newDoctor(t, memory.PoolSpec{})
	memoryCloud.Forbid("EnsureSnapshot")
	for _, f := range examine(t, d).Findings {
		if f.Level == OK && (f.Check == CheckPermissions || f.Check == CheckPool) {
			t.Errorf("reported besides the missing permission: %s", f.Message)
		}
	}
}

// TestVersionOfTodayIsNoTrouble: a pool that was captured today is sound.
func TestVersionOfTodayIsNoTrouble(t *testing.T) {
	d, memoryCloud, pool := newDoctor(t, memory.PoolSpec{})
	memoryCloud.AddVersion(pool, memory.VersionSpec{Version: "2026.03.14"})
	if report := examine(t, d); report.Failures > 0 {
		t.Errorf("%+v", report)
	}
}

// TestChecksAreOnThePage.
func TestChecksAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range Checks() {
		if !strings.Contains(string(page), "| `"+check+"` |") {
			t.Errorf("docs/tasks/doctor.md does not describe %s", check)
		}
	}
}

// TestManyImages warns from seven of ten images on, and fails from nine images on, with the oldest nodes.
func TestManyImages(t *testing.T) {
	for images, want := range map[int]Level{2: OK, 6: OK, 7: Warn, 8: Warn, 9: Fail, 10: Fail} {
		d, memoryCloud, pool := newDoctor(t, memory.PoolSpec{Capacity: 10})
		memoryCloud.SetMaxImages(10)
		for i := range images - 1 {
			memoryCloud.ChangeRecipe(pool, fmt.Sprintf("image-%d", i))
			memoryCloud.AddInstance(pool, fmt.Sprint(i))
		}
		level, says := worst(examine(t, d), CheckImages)
		if level != want || level != OK && (!strings.Contains(says, "on a, b") || !strings.Contains(says, "kamino rebuild pool1")) {
			t.Errorf("%d images: %s, want %s: %s", images, level, want, says)
		}
	}
}

func TestKuredLockFinding(t *testing.T) {
	for name, c := range map[string]struct {
		lock  string
		level Level
		says  string
	}{
		"free":       {level: OK, says: "kured is not installed, or reboots no node now"},
		"of no node": {lock: `{"nodeID":"node-8"}`, level: Warn, says: "captures wait: kured holds its lock for node node-8, which does not exist"},
		"held": {lock: `{"nodeID":"node-7"}`, level: OK,
			says: "kured holds its lock for node node-7: Kamino drains no other node until the node is back"},
		"not readable": {lock: "{", level: Warn,
			says: "unknown whether kured is rebooting a node, so that a capture may drain a second node meanwhile: annotation weave.works/kured-node-lock"},
	} {
		d, _, _ := newDoctor(t, memory.PoolSpec{})
		d.Kured = "kube-system/kured"
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kured"}}
		if c.lock != "" {
			set.Annotations = map[string]string{"weave.works/kured-node-lock": c.lock}
		}
		for _, object := range []runtime.Object{set, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-7"}}} {
			if err := d.Kube.(*fake.Clientset).Tracker().Add(object); err != nil {
				t.Fatal(err)
			}
		}
		var found []Finding
		for _, f := range examine(t, d).Findings {
			if f.Check == CheckKured {
				found = append(found, f)
			}
		}
		if len(found) != 1 || found[0].Level != c.level || !strings.HasPrefix(found[0].Message, c.says) || (c.level == Warn) != (found[0].Remedy != "") {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
