package capi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
)

// class has the AMI in a separate variable that two classes of machines share, and one more variable.
const class = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSClusterTemplate
metadata: {name: class, namespace: NAMESPACE}
spec: {template: {spec: {region: eu-central-1, controlPlaneEndpoint: {host: 127.0.0.1, port: 6443}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: ExternalControlPlaneTemplate
metadata: {name: class, namespace: NAMESPACE}
spec: {template: {spec: {}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: GivenConfigTemplate
metadata: {name: class, namespace: NAMESPACE}
spec: {template: {spec: {}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachineTemplate
metadata: {name: class, namespace: NAMESPACE}
spec: {template: {spec: {instanceType: m7i.large, ami: {id: ami-of-the-class}, sshKeyName: kept}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: class, namespace: NAMESPACE}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSClusterTemplate, name: class}}
  controlPlane: {templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: ExternalControlPlaneTemplate, name: class}}
  workers:
    machineDeployments:
      - class: worker
        infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachineTemplate, name: class}}
        bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: GivenConfigTemplate, name: class}}
  variables:
    - name: ami
      required: true
      schema: {openAPIV3Schema: {type: string}}
    - name: size
      required: true
      schema: {openAPIV3Schema: {type: string, default: m7i.large}}
  patches:
    - name: machines
      definitions:
        - selector: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachineTemplate, matchResources: {machineDeploymentClass: {names: [worker]}}}
          jsonPatches:
            - {op: replace, path: /spec/template/spec/ami/id, valueFrom: {variable: ami}}
            - {op: replace, path: /spec/template/spec/instanceType, valueFrom: {variable: size}}
`

const classy = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: home, namespace: NAMESPACE}
spec:
  topology:
    classRef: {name: class}
    version: v1.37.1
    variables:
      - {name: ami, value: ami-generic}
    workers:
      machineDeployments:
        - name: others
          class: worker
          replicas: 0
        - name: workers
          class: worker
          rollout: {strategy: {type: OnDelete}}
          variables: {overrides: [{name: size, value: m7i.xlarge}]}
`

// newTopology creates a Cluster from a ClusterClass. Its MachineDeployment has this number of machines.
func newTopology(t testing.TB, class, cluster string, machines int) *pool {
	t.Helper()
	p := newNamespace(t)
	p.create(class)
	p.wait("ClusterClass that Cluster API has taken note of", func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("cluster.x-k8s.io/v1beta2")
		list.SetKind("ClusterClassList")
		if err := p.client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool {
			seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
			return seen > 0 && (o.GetNamespace() == p.namespace || o.GetNamespace() == p.namespace+"-classes")
		})
	})
	p.create(cluster)
	p.wait("control plane", func() bool {
		name, _, _ := unstructured.NestedString(p.get("Cluster", "home").Object, "spec", "controlPlaneRef", "name")
		if name != "" {
			p.setControlPlaneReady(name)
		}
		return name != ""
	})
	p.wait("MachineDeployment", func() bool {
		for _, md := range p.list("MachineDeployment") {
			if md.GetLabels()["topology.cluster.x-k8s.io/deployment-name"] == "workers" {
				p.name, p.line = md.GetName(), "home."+md.GetName()
				return true
			}
		}
		return false
	})
	p.merge("MachineDeployment", p.name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, machines))
	p.wait("all machines", func() bool { return len(p.instances()) == machines })
	return p
}

// entry is the pool's in the Cluster's topology.
func (p *pool) entry() (at int, entry map[string]any) {
	p.t.Helper()
	all, _, _ := unstructured.NestedSlice(p.get("Cluster", "home").Object, "spec", "topology", "workers", "machineDeployments")
	at = slices.IndexFunc(all, func(e any) bool { return e.(map[string]any)["name"] == "workers" })
	if at < 0 {
		p.t.Fatal("the topology has no workers")
	}
	return at, all[at].(map[string]any)
}

// ask changes a field of the pool's entry.
func (p *pool) ask(field, value string) {
	p.t.Helper()
	at, _ := p.entry()
	change := fmt.Sprintf(`[{"op":"add","path":"/spec/topology/workers/machineDeployments/%d/%s","value":%s}]`, at, field, value)
	if err := p.client.Patch(context.Background(), p.get("Cluster", "home"), client.RawPatch(types.JSONPatchType, []byte(change))); err != nil {
		p.t.Fatal(err)
	}
}

func text(o *unstructured.Unstructured, path ...string) string {
	found, _, _ := unstructured.NestedString(o.Object, path...)
	return found
}

func (p *pool) topologyHarness() cloudtest.RecipesHarness {
	h := p.harness()
	h.SetUpgrades = func(_ testing.TB, automatic bool) {
		strategy := "OnDelete"
		if automatic {
			strategy = "RollingUpdate"
		}
		p.ask("rollout", fmt.Sprintf(`{"strategy":{"type":%q}}`, strategy))
		p.wait("strategy "+strategy, func() bool {
			return text(p.get("MachineDeployment", p.name), "spec", "rollout", "strategy", "type") == strategy
		})
	}
	return h
}

// TestRecipesOfTopologies runs the suite on a MachineDeployment that the topology controller creates from a
// ClusterClass.
func TestRecipesOfTopologies(t *testing.T) {
	suite(t, func(t *testing.T) *pool { return newTopology(t, class, classy, 2) }, (*pool).topologyHarness, kindCases...)
}

// imageOf returns the template of a MachineDeployment, and the image in this template.
func (p *pool) imageOf(deployment string) (template, image string) {
	p.t.Helper()
	template = text(p.get("MachineDeployment", deployment), "spec", "template", "spec", "infrastructureRef", "name")
	for _, o := range p.list("AWSMachineTemplate") {
		if o.GetName() == template {
			return template, text(&o, "spec", "template", "spec", "ami", "id")
		}
	}
	p.t.Fatalf("%s names %s, which does not exist", deployment, template)
	return "", ""
}

// TestTopologyRevertsPoolWrites: the topology controller reverts a reference to a copy of the template, which is
// the recipe change for other pools. A copy without the labels of the topology would stop the topology of the whole
// Cluster.
func TestTopologyRevertsPoolWrites(t *testing.T) {
	t.Parallel()
	p := newTopology(t, class, classy, 3)
	const copied = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachineTemplate
metadata: {name: copied, namespace: NAMESPACE, labels: {cluster.x-k8s.io/cluster-name: home, topology.cluster.x-k8s.io/owned: '', topology.cluster.x-k8s.io/deployment-name: workers}}
spec: {template: {spec: {instanceType: m7i.xlarge, ami: {id: ami-copied}, sshKeyName: kept}}}
`
	p.create(copied)
	before := p.instances()
	names := func(template string) {
		p.merge("MachineDeployment", p.name, fmt.Sprintf(`{"spec":{"template":{"spec":{"infrastructureRef":{"name":%q}}}}}`, template))
	}
	names("copied")
	p.wait("template of the topology's", func() bool {
		template, image := p.imageOf(p.name)
		return template != "copied" && image == "ami-generic"
	})
	p.create(strings.NewReplacer("name: copied", "name: foreign", ", topology.cluster.x-k8s.io/owned: ''", "").Replace(copied))
	p.wait("topology that stands still", func() bool {
		// The topology controller overwrites foreign changes with each later write.
		if text(p.get("MachineDeployment", p.name), "spec", "template", "spec", "infrastructureRef", "name") != "foreign" {
			names("foreign")
		}
		messages := p.reconciled()
		return messages["status"] == "False" && strings.Contains(fmt.Sprint(messages["message"]), "foreign")
	})
	if diff := cmp.Diff(before, p.instances()); diff != "" {
		t.Errorf("instances (-before +after):\n%s", diff)
	}
}

// reconciled returns the TopologyReconciled condition of the Cluster, or nil.
func (p *pool) reconciled() map[string]any {
	p.t.Helper()
	all, _, _ := unstructured.NestedSlice(p.get("Cluster", "home").Object, "status", "conditions")
	for _, c := range all {
		if messages := c.(map[string]any); messages["type"] == "TopologyReconciled" {
			return messages
		}
	}
	return nil
}

// TestOverrides: a promotion adds one override to one MachineDeployment, and a restoration removes only this
// override.
func TestOverrides(t *testing.T) {
	t.Parallel()
	p := newTopology(t, class, classy, 3)
	p.publish("2026.1.1")
	r, first := p.recipes(), p.templates()
	_, was := p.entry()
	all := p.get("Cluster", "home")
	change := p.change(r, "2026.1.1")
	if err := r.SetRecipe(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{"name": "size", "value": "m7i.xlarge"}, map[string]any{"name": "ami", "value": "ami-2026.1.1"}}
	if _, entry := p.entry(); !cmp.Equal(want, entry["variables"].(map[string]any)["overrides"]) {
		t.Errorf("once promoted, the entry is %v", entry)
	}
	if _, image := p.imageOf(p.name); image != "ami-2026.1.1" {
		t.Errorf("SetRecipe has come back, and the template names %s", image)
	}
	for _, md := range p.list("MachineDeployment") {
		if _, image := p.imageOf(md.GetName()); md.GetName() != p.name && image != "ami-generic" {
			t.Errorf("%s is another MachineDeployment, and names %s", md.GetName(), image)
		}
	}
	for _, template := range p.templates() {
		if !slices.Contains(first, template) && !strings.HasPrefix(template, "home-workers-") {
			t.Errorf("there is a template %s, which the topology controller has not made", template)
		}
	}
	back, err := r.RestoreChange(t.Context(), p.id(), cloud.Saved{Backup: change.Backup})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetRecipe(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	_, now := p.entry()
	if diff := cmp.Diff(was, now); diff != "" {
		t.Errorf("released, the entry is another (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(all.Object["spec"], p.get("Cluster", "home").Object["spec"]); diff != "" {
		t.Errorf("released, the Cluster is another (-before +after):\n%s", diff)
	}
}

func (p *pool) templates() (names []string) {
	for _, o := range p.list("AWSMachineTemplate") {
		names = append(names, o.GetName())
	}
	return names
}

// change points the pool at a version.
func (p *pool) change(r *capi.PoolProvider, version string) cloud.RecipeChange {
	p.t.Helper()
	change, err := r.RecipeChange(context.Background(), cloud.Target{Pool: p.id(), Version: version, Image: p.imageID(version)}, false)
	if err != nil {
		p.t.Fatal(err)
	}
	return change
}

// TestTopologyNotReconciled: as long as Cluster API cannot make a template, nothing counts as done.
func TestTopologyNotReconciled(t *testing.T) {
	t.Parallel()
	p := newTopology(t, class, classy, 3)
	p.publish("2026.1.1")
	plane := strings.Split(class, "\n---\n")[1]
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(plane, "NAMESPACE", p.namespace)), &o.Object); err != nil {
		t.Fatal(err)
	}
	if err := p.client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r := p.recipes()
	change := p.change(r, "2026.1.1")
	err := r.SetRecipe(t.Context(), change)
	if late := (*cloud.Error)(nil); !errors.As(err, &late) || late.Kind != cloud.Conflict || late.Code != "ClusterAPIPending" {
		t.Errorf("pointing it at a version: %v", err)
	}
	again := p.change(r, "2026.1.1")
	seen, err := r.Pool(t.Context(), p.id())
	if err != nil {
		t.Fatal(err)
	}
	pending := slices.ContainsFunc(seen.Refusals, func(f cloud.Refusal) bool { return f.Reason == "ClusterAPIPending" })
	if again.Done || again.From != again.To || seen.Recipe.Image != change.To || !pending {
		t.Errorf("what is asked for is %+v, and the change is %+v: %+v", seen.Recipe, again, seen.Refusals)
	}
	p.create(plane)
	p.merge("Cluster", "home", `{"metadata":{"annotations":{"look":"again"}}}`)
	if err := r.SetRecipe(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if _, image := p.imageOf(p.name); image != "ami-2026.1.1" || !p.change(r, "2026.1.1").Done {
		t.Errorf("it has come back, and the template names %s", image)
	}
}

// TestRightsOfTopologies: the printed rights suffice, except for a ClusterClass in a different namespace, which
// needs a right there.
func TestRightsOfTopologies(t *testing.T) {
	t.Parallel()
	elsewhere := strings.ReplaceAll(class, "NAMESPACE", "NAMESPACE-classes")
	p := newTopology(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: NAMESPACE-classes}\n---\n"+elsewhere, strings.Replace(classy, "{name: class}", "{name: class, namespace: NAMESPACE-classes}", 1), 3)
	rules, err := capi.Rules(cloud.Description{Name: "aws", NewDisks: func(context.Context, cloud.Config) (cloud.ImageProvider, string, error) {
		return cloud.ImageProvider{}, "", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	account := rest.CopyConfig(p.config)
	account.Impersonate = rest.ImpersonationConfig{UserName: "kamino-" + p.namespace}
	allow := func(namespace string, rules []rbacv1.PolicyRule) {
		t.Helper()
		meta := metav1.ObjectMeta{Name: "kamino", Namespace: namespace}
		for _, o := range []client.Object{&rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "kamino"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account.Impersonate.UserName}},
		}} {
			if err := p.client.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	allow(p.namespace, rules)
	r, err := capi.New(capi.Config{Management: account, Cluster: types.NamespacedName{Namespace: p.namespace, Name: "home"}, Images: p})
	if err != nil {
		t.Fatal(err)
	}
	p.publish("2026.1.1")
	lacks := func() (refused, denied []string) {
		t.Helper()
		found, err := r.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: p.id(), Instance: p.instances()[0]})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			refused = append(refused, f.Message)
		}
		all, err := r.Permissions(t.Context(), p.id())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if !one.Allowed {
				denied = append(denied, one.Action+" in "+one.Scope)
			}
		}
		return refused, denied
	}
	p.wait("rights", func() bool { _, err := r.Pool(t.Context(), p.id()); return err == nil })
	refused, denied := lacks()
	if len(refused) != 1 || !strings.Contains(refused[0], "may not get clusterclasses.cluster.x-k8s.io in namespace "+p.namespace+"-classes") ||
		!cmp.Equal(denied, []string{"get clusterclasses.cluster.x-k8s.io in namespace " + p.namespace + "-classes"}) {
		t.Errorf("without a right in the other namespace: %q, %q", refused, denied)
	}
	if err := r.SetRecipe(t.Context(), p.change(r, "2026.1.1")); !cloud.Is(err, cloud.Refused) {
		t.Errorf("the variable of the image is unknown: %v", err)
	}
	allow(p.namespace+"-classes", []rbacv1.PolicyRule{{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusterclasses"}, Verbs: []string{"get"}}})
	p.wait("right to read the ClusterClass", func() bool { refused, denied = lacks(); return len(refused)+len(denied) == 0 })
	if err := r.SetRecipe(t.Context(), p.change(r, "2026.1.1")); err != nil {
		t.Error(err)
	}
}
