package capi_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cloud/cloudtest"
)

// class has the AMI in a variable of its own, which the machines of two classes share, and one more variable beside it.
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

// newTopology makes a Cluster from a ClusterClass, and of its topology the MachineDeployment that has three machines.
func newTopology(t testing.TB, class, cluster string) *pool {
	t.Helper()
	p := newNamespace(t)
	p.create(class)
	p.wait("ClusterClass that Cluster API has taken note of", func() bool {
		seen, _, _ := unstructured.NestedInt64(p.get("ClusterClass", "class").Object, "status", "observedGeneration")
		return seen > 0
	})
	p.create(cluster)
	p.wait("control plane", func() bool {
		name, _, _ := unstructured.NestedString(p.get("Cluster", "home").Object, "spec", "controlPlaneRef", "name")
		if name != "" {
			p.runs(name)
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
	p.merge("MachineDeployment", p.name, `{"spec":{"replicas":3}}`)
	p.wait("three machines", func() bool { return len(p.instances()) == 3 })
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

func (p *pool) text(o *unstructured.Unstructured, path ...string) string {
	found, _, _ := unstructured.NestedString(o.Object, path...)
	return found
}

func (p *pool) classyHarness() cloudtest.RecipesHarness {
	h := p.harness()
	h.SetUpgrades = func(_ testing.TB, automatic bool) {
		strategy := "OnDelete"
		if automatic {
			strategy = "RollingUpdate"
		}
		p.ask("rollout", fmt.Sprintf(`{"strategy":{"type":%q}}`, strategy))
		p.wait("strategy "+strategy, func() bool {
			return p.text(p.get("MachineDeployment", p.name), "spec", "rollout", "strategy", "type") == strategy
		})
	}
	return h
}

// TestRecipesOfTopologies: the same of a MachineDeployment that Cluster API's topology controller makes from a ClusterClass.
func TestRecipesOfTopologies(t *testing.T) {
	cloudtest.RunRecipes(t, func(t *testing.T) cloudtest.RecipesHarness {
		t.Parallel()
		return newTopology(t, class, classy).classyHarness()
	})
}
