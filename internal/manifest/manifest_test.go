package manifest

import (
	"bytes"
	stdcmp "cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// documents renders and splits the stream. Every document must be an object with a kind and a name.
func documents(t *testing.T, o Options) []*unstructured.Unstructured {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, o); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, text := range strings.Split(out.String(), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(text, "---\n")), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if object.GetKind() == "" || object.GetName() == "" {
			t.Fatalf("a document without kind or name:\n%s", text)
		}
		objects = append(objects, object)
	}
	return objects
}

// as parses an object strictly: an unknown field is an error.
func as[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			typed := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
				t.Fatalf("%s %s: %v", kind, name, err)
			}
			return typed
		}
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

func TestEverythingCanBeAppliedInOrder(t *testing.T) {
	var kinds []string
	for _, object := range documents(t, Options{}) {
		kinds = append(kinds, object.GetKind())
	}
	if kinds[0] != "CustomResourceDefinition" {
		t.Errorf("the first document is a %s", kinds[0])
	}
	if ns, account := slices.Index(kinds, "Namespace"), slices.Index(kinds, "ServiceAccount"); ns < 0 || ns > account {
		t.Errorf("the namespace is not before what is in it: %v", kinds)
	}
	if slices.Contains(kinds, "Deployment") {
		t.Error("a Deployment that no request for")
	}
}

// The generalize pod runs on a node whose disk becomes an image: its token has nearly no permissions.
func TestPermissionsOfGeneralizePod(t *testing.T) {
	objects := documents(t, Options{})
	role := as[rbacv1.ClusterRole](t, objects, "ClusterRole", v1alpha1.GeneralizeServiceAccount)
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"kamino.dev"}, Resources: []string{"nodeorders"}, Verbs: []string{"get"}},
		{APIGroups: []string{"kamino.dev"}, Resources: []string{"nodeorders/status"}, Verbs: []string{"patch"}},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	as[rbacv1.RoleBinding](t, objects, "RoleBinding", v1alpha1.GeneralizeServiceAccount)
	for _, object := range objects {
		if object.GetKind() == "ClusterRoleBinding" && object.GetName() == v1alpha1.GeneralizeServiceAccount {
			t.Error("it is bound in every namespace")
		}
	}
	account := as[corev1.ServiceAccount](t, objects, "ServiceAccount", v1alpha1.GeneralizeServiceAccount)
	if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
		t.Error("its token is mounted automatically")
	}
}

func TestRolesAreMinimal(t *testing.T) {
	objects := documents(t, Options{})
	cluster := as[rbacv1.ClusterRole](t, objects, "ClusterRole", "kamino-engine").Rules
	namespaced := as[rbacv1.Role](t, objects, "Role", "kamino-engine").Rules
	pods := as[rbacv1.Role](t, objects, "Role", "kamino-engine-pods").Rules
	for _, rule := range slices.Concat(cluster, namespaced, pods) {
		for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
			if slices.Contains(list, "*") {
				t.Errorf("a wildcard in %+v", rule)
			}
		}
	}
	for _, rule := range cluster {
		if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "pods") && slices.Contains(rule.Verbs, "create") {
			t.Errorf("the whole cluster's %+v", rule)
		}
	}
	for _, rule := range namespaced {
		if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"get", "create"}) {
			t.Errorf("the user names a Secret that is kept, and needs no more: %+v", rule)
		}
	}
}

// TestTwoNamespacesByDefault: the objects of the engine are in one namespace, and the objects of the generalize pods in
// another namespace that admits privileged pods.
func TestTwoNamespacesByDefault(t *testing.T) {
	for _, o := range []Options{{}, {Namespace: "elsewhere"}, {GeneralizeNamespace: "mighty"}, {Namespace: "calm", GeneralizeNamespace: "mighty"}} {
		o.Controller, o.Image, o.ControllerImage, o.CloudConfigSecret, o.ConfigFile = true, "i", "c", "cc", "cloud.json"
		engine, pods := stdcmp.Or(o.Namespace, "kamino-system"), stdcmp.Or(o.GeneralizeNamespace, "kamino-generalize")
		objects := documents(t, o)
		for name, level := range map[string]string{engine: "restricted", pods: "privileged"} {
			if got := as[corev1.Namespace](t, objects, "Namespace", name).Labels["pod-security.kubernetes.io/enforce"]; got != level {
				t.Errorf("namespace %s enforces %q, want %q", name, got, level)
			}
		}
		for _, object := range objects {
			want, subject := engine, engine
			switch {
			case object.GetName() == v1alpha1.GeneralizeServiceAccount:
				want, subject = pods, pods
			case strings.HasPrefix(object.GetName(), "kamino-engine-pods"):
				want = pods
			}
			if ns := object.GetNamespace(); ns != "" && ns != want {
				t.Errorf("%s %s is in namespace %s, want %s", object.GetKind(), object.GetName(), ns, want)
			}
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			for _, s := range subjects {
				if got := s.(map[string]any)["namespace"]; got != subject {
					t.Errorf("%s %s binds an account of namespace %v", object.GetKind(), object.GetName(), got)
				}
			}
		}
		deployment := as[appsv1.Deployment](t, objects, "Deployment", "kamino-controller")
		if args := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--namespace="+engine) ||
			!slices.Contains(args, "--generalize-namespace="+pods) {
			t.Errorf("args = %v", args)
		}
		if deployment.Namespace != engine || deployment.Spec.Template.Spec.Volumes[0].Secret.SecretName != "cc" {
			t.Errorf("Secret cc is mounted in namespace %s", deployment.Namespace)
		}
	}
}

// TestTheChartHasTheSameNamespace: a release with the name kamino has the default namespace of the flag.
func TestTheChartHasTheSameNamespace(t *testing.T) {
	text, err := os.ReadFile("../../charts/kamino/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Name string }
	if err := yaml.Unmarshal(text, &chart); err != nil || chart.Name+"-generalize" != v1alpha1.DefaultGeneralizeNamespace {
		t.Errorf("chart %q, %v", chart.Name, err)
	}
}

// An API server before 1.30 lacks the kind, and kubectl would fail.
func TestTheAdmissionPolicyCanBeLeftOut(t *testing.T) {
	for _, without := range []bool{false, true} {
		found := slices.ContainsFunc(documents(t, Options{NoAdmissionPolicy: without}), func(o *unstructured.Unstructured) bool {
			return strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy")
		})
		if found == without {
			t.Errorf("left out: %t, and it is there: %t", without, found)
		}
	}
}

func TestTheController(t *testing.T) {
	objects := documents(t, Options{Controller: true, Image: "example.test/kamino-node:v1", ControllerImage: "example.test/kamino:v1",
		CloudConfigSecret: "cc", ConfigFile: "cloud.json"})
	deployment := as[appsv1.Deployment](t, objects, "Deployment", "kamino-controller")
	pod := deployment.Spec.Template.Spec
	for _, want := range []string{"controller", "--namespace=kamino-system", "--image=example.test/kamino-node:v1", "--cloud-config=/etc/kamino/cloud.json"} {
		if !slices.Contains(pod.Containers[0].Args, want) {
			t.Errorf("args %v lack %s", pod.Containers[0].Args, want)
		}
	}
	if image := pod.Containers[0].Image; image != "example.test/kamino:v1" {
		t.Errorf("the controller runs %s", image)
	}
	if pod.Volumes[0].Secret.SecretName != "cc" {
		t.Errorf("volumes = %+v", pod.Volumes)
	}
	as[corev1.ServiceAccount](t, objects, "ServiceAccount", pod.ServiceAccountName)

	bare := as[appsv1.Deployment](t, documents(t, Options{Controller: true, Image: "i", ControllerImage: "c"}), "Deployment",
		"kamino-controller").Spec.Template.Spec
	if len(bare.Volumes) != 0 || len(bare.Containers[0].VolumeMounts) != 0 {
		t.Errorf("a volume without a Secret: %+v", bare.Volumes)
	}
}

// TestManifestsEqualChart compares the two installations, of which one was measured.
func TestManifestsEqualChart(t *testing.T) {
	text, err := os.ReadFile("../../charts/kamino/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Controller struct{ Resources corev1.ResourceRequirements }
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	d := as[appsv1.Deployment](t, documents(t, Options{Controller: true, Image: "i", ControllerImage: "c"}), "Deployment", "kamino-controller")
	if diff := cmp.Diff(values.Controller.Resources, d.Spec.Template.Spec.Containers[0].Resources); diff != "" {
		t.Errorf("resources (-chart +manifest):\n%s", diff)
	}
}

// TestManagement: the other cluster gets an account with these rules, in its namespace only.
func TestManagement(t *testing.T) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"g"}, Resources: []string{"machines"}, Verbs: []string{"get"}}}
	objects := documents(t, Options{Management: "clusters", ManagementRules: rules, Controller: true})
	for _, o := range objects {
		if o.GetNamespace() != "clusters" || o.GetName() != "kamino" {
			t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	binding := as[rbacv1.RoleBinding](t, objects, "RoleBinding", "kamino")
	account := as[corev1.ServiceAccount](t, objects, "ServiceAccount", "kamino")
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "clusters", Name: account.Name}}
	if diff := cmp.Diff(want, binding.Subjects); diff != "" || binding.RoleRef.Kind != "Role" {
		t.Errorf("the binding is of %+v (-want +got):\n%s", binding.RoleRef, diff)
	}
	if diff := cmp.Diff(rules, as[rbacv1.Role](t, objects, "Role", binding.RoleRef.Name).Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	token := as[corev1.Secret](t, objects, "Secret", "kamino")
	if token.Type != corev1.SecretTypeServiceAccountToken || token.Annotations[corev1.ServiceAccountNameKey] != account.Name || len(token.Data) != 0 {
		t.Errorf("the Secret is %+v", token)
	}
	if len(objects) != 4 {
		t.Errorf("%d objects", len(objects))
	}
}

// TestManagementApart binds the account's rules in another namespace, and the bindings of two Clusters have different
// names.
func TestManagementApart(t *testing.T) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{"one"}, Verbs: []string{"get"}}}
	names := map[string]bool{}
	for _, namespace := range []string{"clusters", "more"} {
		objects := documents(t, Options{Management: namespace, ManagementApart: map[string][]rbacv1.PolicyRule{"elsewhere": rules}})
		role := as[rbacv1.Role](t, objects, "Role", "kamino-"+namespace)
		binding := as[rbacv1.RoleBinding](t, objects, "RoleBinding", role.Name)
		want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "kamino"}}
		if diff := cmp.Diff(want, binding.Subjects); diff != "" || role.Namespace != "elsewhere" || binding.Namespace != "elsewhere" ||
			binding.RoleRef.Name != role.Name {
			t.Errorf("in %s, the binding is of %+v (-want +got):\n%s", binding.Namespace, binding.RoleRef, diff)
		}
		if diff := cmp.Diff(rules, role.Rules); diff != "" || len(objects) != 6 || names[role.Name] {
			t.Errorf("%d objects, rules (-want +got):\n%s", len(objects), diff)
		}
		names[role.Name] = true
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{{Management: "No_Such"}, {Controller: true}, {Namespace: "No_Such"}, {GeneralizeNamespace: "No_Such"},
		{Namespace: "one", GeneralizeNamespace: "one"}, {GeneralizeNamespace: v1alpha1.DefaultNamespace}, {Namespace: v1alpha1.DefaultGeneralizeNamespace}} {
		if err := Write(&bytes.Buffer{}, o); err == nil {
			t.Errorf("%+v was rendered", o)
		}
	}
}

// TestTwoInstallations: the bindings of two namespaces have different names. Two installations may share the namespace of
// the generalize pods. The default namespace keeps its names, so that an upgrade finds its binding.
func TestTwoInstallations(t *testing.T) {
	owner := map[string]string{}
	for _, o := range []Options{
		{Force: true, DeleteTrialNodes: true}, {Namespace: "team-a", Force: true, DeleteTrialNodes: true},
		{Namespace: "team-b", Force: true, DeleteTrialNodes: true}, {Namespace: "team-c", GeneralizeNamespace: "team-c-pods"},
	} {
		for _, object := range documents(t, o) {
			if binds := object.GetKind() == "ClusterRoleBinding" || object.GetKind() == "RoleBinding"; !binds ||
				object.GetName() == v1alpha1.GeneralizeServiceAccount {
				continue
			}
			name := object.GetNamespace() + "/" + object.GetName()
			if other, taken := owner[name]; taken {
				t.Errorf("%s of namespace %q takes that of %q", name, o.Namespace, other)
			}
			owner[name] = o.Namespace
		}
	}
	if of, found := owner["/kamino-engine"]; !found || of != "" {
		t.Error("the default namespace has lost its kamino-engine")
	}
}

// The permission to delete pods of the whole cluster exists only on request.
func TestTheRightToDeletePodsIsAskedFor(t *testing.T) {
	deletes := func(o Options) (roles []string) {
		for _, object := range documents(t, o) {
			if object.GetKind() != "ClusterRole" {
				continue
			}
			role := as[rbacv1.ClusterRole](t, []*unstructured.Unstructured{object}, "ClusterRole", object.GetName())
			for _, rule := range role.Rules {
				if slices.Contains(rule.Resources, "pods") && slices.Contains(rule.Verbs, "delete") {
					roles = append(roles, role.Name)
				}
			}
		}
		return roles
	}
	if got := deletes(Options{}); len(got) > 0 {
		t.Errorf("%v may delete any pod", got)
	}
	if got := deletes(Options{Force: true}); !slices.Equal(got, []string{"kamino-engine-force"}) {
		t.Errorf("%v may delete any pod", got)
	}
}

// The permission to delete Nodes exists only on request. If possible, the API server limits it to Nodes of trials and workshops.
func TestTheRightToDeleteNodesIsAskedFor(t *testing.T) {
	for _, o := range []Options{
		{}, {Force: true}, {DeleteTrialNodes: true}, {DeleteTrialNodes: true, NoAdmissionPolicy: true}, {DeleteTrialNodes: true, Namespace: "team-a"},
	} {
		var deletes, walls []string
		for _, object := range documents(t, o) {
			if object.GetKind() == "ValidatingAdmissionPolicy" && strings.HasPrefix(object.GetName(), "kamino-trial-nodes.") {
				walls = append(walls, object.GetName())
			}
			if object.GetKind() != "ClusterRole" {
				continue
			}
			role := as[rbacv1.ClusterRole](t, []*unstructured.Unstructured{object}, "ClusterRole", object.GetName())
			for _, rule := range role.Rules {
				if slices.Contains(rule.Resources, "nodes") && (slices.Contains(rule.Verbs, "delete") || slices.Contains(rule.Verbs, "deletecollection")) {
					deletes = append(deletes, role.Name)
				}
			}
		}
		var role, wall []string
		if o.DeleteTrialNodes {
			role = []string{"kamino-engine-trial-nodes"}
			if !o.NoAdmissionPolicy {
				wall = []string{"kamino-trial-nodes." + stdcmp.Or(o.Namespace, v1alpha1.DefaultNamespace)}
			}
		}
		if !slices.Equal(deletes, role) || !slices.Equal(walls, wall) {
			t.Errorf("%+v: %v may delete nodes, held by %v", o, deletes, walls)
		}
		if !o.DeleteTrialNodes {
			continue
		}
		bound := as[rbacv1.ClusterRoleBinding](t, documents(t, o), "ClusterRoleBinding",
			"kamino-engine-trial-nodes"+apart(stdcmp.Or(o.Namespace, v1alpha1.DefaultNamespace)))
		if bound.RoleRef.Name != "kamino-engine-trial-nodes" || bound.Subjects[0].Name != "kamino-engine" {
			t.Errorf("%+v: bound is %+v", o, bound)
		}
	}
}

// A viewer of the cluster sees Kamino's objects and changes none, and only Kamino writes a status.
func TestPeople(t *testing.T) {
	objects := documents(t, Options{})
	viewer := as[rbacv1.ClusterRole](t, objects, "ClusterRole", "kamino-viewer")
	operator := as[rbacv1.ClusterRole](t, objects, "ClusterRole", "kamino-operator")
	if viewer.Labels["rbac.authorization.k8s.io/aggregate-to-view"] != "true" || operator.Labels["rbac.authorization.k8s.io/aggregate-to-admin"] != "true" {
		t.Errorf("no account gets them: %v, %v", viewer.Labels, operator.Labels)
	}
	for _, rule := range viewer.Rules {
		if !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
			t.Errorf("a viewer may %v", rule.Verbs)
		}
	}
	for _, rule := range slices.Concat(viewer.Rules, operator.Rules) {
		if !slices.Equal(rule.APIGroups, []string{"kamino.dev"}) || strings.Contains(strings.Join(rule.Resources, " "), "/") {
			t.Errorf("people get %+v", rule)
		}
	}
}
